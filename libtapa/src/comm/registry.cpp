#include "comm/registry.hpp"

#include <cstddef>
#include <new>
#include <vector>

#include "comm/comm_state.hpp"
#include "comm/job_report.hpp"
#include "comm/past_calls.hpp"
#include "comm/results_store.hpp"
#include "comm/setup.hpp"
#include "run/datatype.hpp"
#include "run/error.hpp"
#include "run/freed_handles.hpp"
#include "run/locked.hpp"
#include "run/private_comm.hpp"
#include "run/progress.hpp"
#include "run/world.hpp"
#include "world/drop_in.hpp"
#include "world/world.hpp"

namespace tapa {

namespace {

/// Library state: the keyvals and the states that live.
struct Registry {
  int keyval = MPI_KEYVAL_INVALID;      // communicator -> state
  int end_keyval = MPI_KEYVAL_INVALID;  // on MPI_COMM_SELF: its deletion is the first thing MPI_Finalize does
  std::vector<std::weak_ptr<CommState>> states;
};

using Holder = std::shared_ptr<CommState>;

int delete_state(MPI_Comm, int, void* value, void*) {
  freed_communicators.fetch_add(1, std::memory_order_release);
  auto* const holder = static_cast<Holder*>(value);
  (*holder)->release_device();
  delete holder;  // operations in flight keep the state until they end
  return MPI_SUCCESS;
}

int at_finalize(MPI_Comm, int, void*, void*) {
  end_states();
  return MPI_SUCCESS;
}

// Duplicates of a communicator make their own state, so nothing is copied.
void make_keyvals(Registry& r) {
  if (r.keyval != MPI_KEYVAL_INVALID) return;
  begin_clock();
  if (!is_drop_in()) {  // else the drop-in says when
    check_mpi(PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_finalize, &r.end_keyval, nullptr),
              "MPI_Comm_create_keyval");
    check_mpi(PMPI_Comm_set_attr(MPI_COMM_SELF, r.end_keyval, nullptr), "MPI_Comm_set_attr");
  }
  check_mpi(PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_state, &r.keyval, nullptr),
            "MPI_Comm_create_keyval");
}

}  // namespace

Holder next_state(std::size_t& at) {
  const auto r = locked<Registry>();
  while (at < r->states.size()) {
    if (auto state = r->states[at++].lock(); state && state->ready()) return state;
  }
  return nullptr;
}

std::shared_ptr<CommState> find_state(MPI_Comm comm) {
  const auto r = locked<Registry>();
  if (r->keyval == MPI_KEYVAL_INVALID) return nullptr;
  void* value = nullptr;
  int found = 0;
  check_mpi(PMPI_Comm_get_attr(comm, r->keyval, static_cast<void*>(&value), &found), "MPI_Comm_get_attr");
  return found != 0 ? *static_cast<Holder*>(value) : nullptr;
}

std::shared_ptr<CommState> state_of(MPI_Comm comm) {
  if (auto state = find_state(comm)) return state;
  const auto r = locked<Registry>();
  make_keyvals(*r);
  const Progress::Pause pause;  // what tasks do may need the registry too
  auto state = std::make_shared<CommState>(comm);
  auto holder = std::make_unique<Holder>(state);
  check_mpi(PMPI_Comm_set_attr(comm, r->keyval, holder.get()), "MPI_Comm_set_attr");
  static_cast<void>(holder.release());
  return state;
}

std::shared_ptr<CommState> state_to_set_up(MPI_Comm comm) {
  try {
    return state_of(comm);
  } catch (const std::bad_alloc&) {
    if (!is_drop_in()) refuse_to_join(comm);
    throw;
  }
}

void enlist(const std::shared_ptr<CommState>& state) {
  const auto r = locked<Registry>();
  const auto same = [&](const auto& weak) { return !weak.owner_before(state) && !state.owner_before(weak); };
  std::erase_if(r->states, [&](const auto& weak) { return weak.expired() || same(weak); });
  r->states.push_back(state);
}

void end_states() noexcept {
  if (world_ends()) return;
  for (std::size_t at = 0; const auto state = next_state(at);) keep_results(*state);
  print_report();
  save_results();
  stop_watching();
  end_world();
  freed_communicators.fetch_add(1, std::memory_order_release);  // nobody goes by what it remembers
  Progress::end();
  for (std::size_t at = 0; const auto state = next_state(at);) {
    state->release_device();
    state->release();
  }
  if (const auto world = World::of_process()) world->release();
  free_alone_comm();
  free_type_keyval();
  const auto r = locked<Registry>();
  if (r->keyval != MPI_KEYVAL_INVALID) PMPI_Comm_free_keyval(&r->keyval);
  if (r->end_keyval != MPI_KEYVAL_INVALID) PMPI_Comm_free_keyval(&r->end_keyval);
}

std::vector<ReportRow> report_rows() {
  auto rows = kept_rows();
  for (std::size_t at = 0; const auto state = next_state(at);) {
    const auto parts = state->parts();
    const auto own = parts->report.rows(parts->name, state->rank, state->size);
    rows.insert(rows.end(), own.begin(), own.end());
  }
  return rows;
}

}  // namespace tapa
