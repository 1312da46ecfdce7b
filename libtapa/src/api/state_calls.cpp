// The entry points for communicator state, options, errors and version.
#include <algorithm>
#include <cstring>
#include <exception>

#include "api/entry.hpp"
#include "comm/past_calls.hpp"
#include "comm/registry.hpp"
#include "report/report.hpp"
#include "route/ways.hpp"
#include "run/end_job.hpp"
#include "run/error.hpp"
#include "run/progress.hpp"
#include "run/world.hpp"
#include "tapa/tapa.h"
#include "world/drop_in.hpp"
#include "world/world.hpp"

using namespace tapa;

namespace {

template <class T>
void require(const T* pointer, const char* name) {
  if (pointer == nullptr) refuse(MPI_ERR_ARG, name, " is null");
}

/// Copies text into a caller's buffer of `size` bytes, cut to fit; `length`: of all of it, or null.
void copy_text(const std::string& text, char* value, int size, int* length = nullptr) {
  require(value, "value");
  if (size < 1) refuse(MPI_ERR_ARG, "size is ", size, ", expected 1 or more");
  const std::size_t n = std::min(text.size(), static_cast<std::size_t>(size) - 1);
  std::memcpy(value, text.data(), n);
  value[n] = '\0';
  if (length != nullptr) *length = static_cast<int>(text.size());
}

std::string own_version() {
  return words(TAPA_VERSION_MAJOR, ".", TAPA_VERSION_MINOR, ".", TAPA_VERSION_PATCH);
}

/// Makes the world of MPI_COMM_WORLD, and sets that up where its ranks share memory or plans may carry its
/// calls. Collective. What is not possible leaves all-to-all to MPI, on all ranks alike, and is said once.
/// Ends the job when only this rank knows of a failure.
void begin_drop_in() noexcept {
  const double began = PMPI_Wtime();
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  try {
    const std::shared_ptr<World> world = World::make(MPI_COMM_WORLD, {});
    if (!world->shared.options->settings().enable) return;
    World::set_of_process(world);
    if (world->mates.size() > 1 && !world->arena && world->nodes == 1) {
      if (rank == 0) warn_all_is_mpis("the ranks of this node can share no memory");
      return;
    }
    Progress::instance().settle();
    if (world->size > 1) state_of(MPI_COMM_WORLD)->set_up_whole(world, began);
    if (world->size > 1) watch_for_past_calls();
  } catch (const SetupError& e) {  // all ranks know
    if (rank == 0) warn_all_is_mpis(e.what());
  } catch (const std::exception& e) {  // this rank may be the only one that knows: nobody could go on
    end_job(MPI_COMM_WORLD, "the ranks could not agree in MPI_Init", e.what());
  }
}

}  // namespace

extern "C" {

int TAPA_Comm_setup(MPI_Comm comm) {
  return guarded(comm, "TAPA_Comm_setup", [&] { (void)ready_state(comm); });
}

int TAPA_Comm_set(MPI_Comm comm, const char* key, const char* value) {
  return guarded(comm, "TAPA_Comm_set", [&] {
    require(key, "key");
    require(value, "value");
    ready_state(comm)->set_option(key, value);
  });
}

int TAPA_Comm_get(MPI_Comm comm, const char* key, char* value, int size, int* length) {
  return guarded(comm, "TAPA_Comm_get", [&] {
    require(key, "key");
    const auto rules = ready_state(comm)->parts()->rules;
    copy_text(rules->options->text(key), value, size, length);
  });
}

int TAPA_Comm_plan(MPI_Comm comm, size_t bytes, char* plan, int size, int* length) {
  return guarded(comm, "TAPA_Comm_plan", [&] {
    const auto state = ready_state(comm);
    const auto parts = state->parts();
    const Decision decision = decide(*parts, true, bytes, {true, parts->regions.available(), false});
    copy_text(decision.text, plan, size, length);
  });
}

int TAPA_Comm_level(MPI_Comm comm, int peer, int* level, char* name, int size) {
  return guarded(comm, "TAPA_Comm_level", [&] {
    const auto state = ready_state(comm);
    if (peer < 0 || peer >= state->size)
      refuse(MPI_ERR_RANK, "peer is ", peer, ", expected 0 to ", state->size - 1);
    const auto topology = state->parts()->rules->topology;
    const int found = topology->level_of(state->rank, peer);
    if (level != nullptr) *level = found;
    if (name != nullptr) copy_text(topology->levels[static_cast<std::size_t>(found)].name, name, size);
  });
}

int TAPA_Comm_levels(MPI_Comm comm, int* count, int* nic_level, char* names, int size, int* length) {
  return guarded(comm, "TAPA_Comm_levels", [&] {
    const auto topology = ready_state(comm)->parts()->rules->topology;
    std::string text;
    for (const Level& level : topology->levels) text += (text.empty() ? "" : ",") + level.name;
    if (names != nullptr) copy_text(text, names, size);
    if (length != nullptr) *length = static_cast<int>(text.size());
    if (count != nullptr) *count = static_cast<int>(topology->levels.size());
    if (nic_level != nullptr) *nic_level = topology->nic_level;
  });
}

const char* TAPA_Last_error(void) {
  return last_error();
}

/// A program's first calls, on this rank alone: else these would wait for pages and for symbols.
static void warm_up() {
  char from = 0;
  char to = 0;
  TAPA_Alltoall(&from, 1, MPI_BYTE, &to, 1, MPI_BYTE, MPI_COMM_SELF);
  forget_rows();  // the program's calls are what is reported
}

int TAPA_Interpose_begin(const char* version) {
  if (version == nullptr || version != own_version()) return MPI_ERR_OTHER;
  if (is_drop_in()) return MPI_SUCCESS;  // by another drop-in of the process
  become_drop_in();
  Progress::outlast_finalize();
  return contained("TAPA_Interpose_begin", [] {
    if (!world_runs()) return;
    begin_drop_in();
    warm_up();
  });
}

int TAPA_Interpose_end(void) {
  end_states();
  return MPI_SUCCESS;
}

int TAPA_Get_version(int* major, int* minor, int* patch) {
  if (major != nullptr) *major = TAPA_VERSION_MAJOR;
  if (minor != nullptr) *minor = TAPA_VERSION_MINOR;
  if (patch != nullptr) *patch = TAPA_VERSION_PATCH;
  return MPI_SUCCESS;
}

}  // extern "C"
