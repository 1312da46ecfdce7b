// The entry points for communicator state, options, errors and version.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "api/entry.hpp"
#include "api/forward.hpp"
#include "comm/duplications.hpp"
#include "comm/guest.hpp"
#include "comm/learnt_store.hpp"
#include "comm/report.hpp"
#include "plan/choice.hpp"
#include "run/error.hpp"
#include "run/private_comm.hpp"
#include "run/progress.hpp"
#include "run/world.hpp"
#include "tapa/tapa.h"

using namespace tapa;

namespace {

template <class T>
void require(const T* pointer, const char* name) {
  if (pointer == nullptr) throw CallError(MPI_ERR_ARG, std::string(name) + " is null");
}

/// Copies text into a caller's buffer of `size` bytes, cut to fit.
void copy_text(const std::string& text, char* value, int size) {
  require(value, "value");
  if (size < 1) throw CallError(MPI_ERR_ARG, "size is " + std::to_string(size) + ", expected 1 or more");
  const std::size_t n = std::min(text.size(), static_cast<std::size_t>(size) - 1);
  std::memcpy(value, text.data(), n);
  value[n] = '\0';
}

std::string own_version() {
  return std::to_string(TAPA_VERSION_MAJOR) + "." + std::to_string(TAPA_VERSION_MINOR) + "." +
         std::to_string(TAPA_VERSION_PATCH);
}

}  // namespace

extern "C" {

int TAPA_Comm_setup(MPI_Comm comm) {
  return guarded(comm, "TAPA_Comm_setup", [&] {
    (void)ready_state(comm);
    return MPI_SUCCESS;
  });
}

int TAPA_Comm_set(MPI_Comm comm, const char* key, const char* value) {
  return guarded(comm, "TAPA_Comm_set", [&] {
    require(key, "key");
    require(value, "value");
    try {
      ready_state(comm)->set_option(key, value);
    } catch (const std::invalid_argument& e) {
      throw CallError(MPI_ERR_ARG, e.what());
    }
    return MPI_SUCCESS;
  });
}

int TAPA_Comm_get(MPI_Comm comm, const char* key, char* value, int size, int* length) {
  return guarded(comm, "TAPA_Comm_get", [&] {
    require(key, "key");
    try {
      const auto options = ready_state(comm)->options();
      const std::string& text = options->text(key);
      copy_text(text, value, size);
      if (length != nullptr) *length = static_cast<int>(text.size());
    } catch (const std::invalid_argument& e) {
      throw CallError(MPI_ERR_ARG, e.what());
    }
    return MPI_SUCCESS;
  });
}

int TAPA_Comm_plan(MPI_Comm comm, size_t bytes, char* plan, int size, int* length) {
  return guarded(comm, "TAPA_Comm_plan", [&] {
    const auto state = ready_state(comm);
    const auto parts = state->parts();
    const Decision decision = parts->decide(true, bytes, {true, parts->channels.available(), false});
    copy_text(decision.text, plan, size);
    if (length != nullptr) *length = static_cast<int>(decision.text.size());
    return MPI_SUCCESS;
  });
}

int TAPA_Comm_level(MPI_Comm comm, int peer, int* level, char* name, int size) {
  return guarded(comm, "TAPA_Comm_level", [&] {
    const auto state = ready_state(comm);
    if (peer < 0 || peer >= state->size()) {
      throw CallError(MPI_ERR_RANK, "peer is " + std::to_string(peer) + ", expected 0 to " +
                                        std::to_string(state->size() - 1));
    }
    const auto topology = state->topology();
    const int found = topology->level_of(state->rank(), peer);
    if (level != nullptr) *level = found;
    if (name != nullptr) copy_text(topology->levels[static_cast<std::size_t>(found)].name, name, size);
    return MPI_SUCCESS;
  });
}

int TAPA_Comm_levels(MPI_Comm comm, int* count, int* nic_level, char* names, int size, int* length) {
  return guarded(comm, "TAPA_Comm_levels", [&] {
    const auto topology = ready_state(comm)->topology();
    std::string text;
    for (const Level& level : topology->levels) text += (text.empty() ? "" : ",") + level.name;
    if (names != nullptr) copy_text(text, names, size);
    if (length != nullptr) *length = static_cast<int>(text.size());
    if (count != nullptr) *count = static_cast<int>(topology->levels.size());
    if (nic_level != nullptr) *nic_level = topology->nic_level;
    return MPI_SUCCESS;
  });
}

const char* TAPA_Last_error(void) {
  return last_error();
}

/// Goes the way of a program's first calls, on this rank alone: else these would wait for pages, for symbols
/// and for what is made once, ten times as long as for MPI.
static void warm_up() {
  char from = 0;
  char to = 0;
  MPI_Comm comm = MPI_COMM_NULL;
  TAPA_Alltoall(&from, 1, MPI_BYTE, &to, 1, MPI_BYTE, MPI_COMM_SELF);
  if (make_private_comm(MPI_COMM_SELF, &comm) != MPI_SUCCESS) return;
  contained("TAPA_Guest", [&] {
    CommState* const state = CommState::of(comm).get();
    return state->passes(0) ? MPI_SUCCESS : MPI_ERR_OTHER;
  });
  PMPI_Comm_free(&comm);
  forget_rows();  // the program's calls are what is reported
}

int TAPA_Guest(const char* version, int at_once) {
  if (version == nullptr || version != own_version()) return MPI_ERR_OTHER;
  become_guest(at_once != 0);
  Progress::outlast_finalize();
  if (world_runs()) warm_up();
  return MPI_SUCCESS;
}

int TAPA_Guest_early(long long sizes[], int most) {
  return contained("TAPA_Guest_early", [&] {
    const std::vector<int> early = early_sizes(static_cast<std::size_t>(most));
    std::fill(std::copy(early.begin(), early.end(), sizes), sizes + most, 0);
    return MPI_SUCCESS;
  });
}

int TAPA_Guest_talk(const long long sizes[], int count) {
  return contained("TAPA_Guest_talk", [&] {
    talk_early(std::vector<int>(sizes, sizes + count));
    return MPI_SUCCESS;
  });
}

int TAPA_Guest_idup_begins(MPI_Comm comm) {
  return contained("TAPA_Guest_idup_begins", [&] {
    duplication_begins();
    note_in_use(comm);
    if (comm != MPI_COMM_NULL && !is_mpis_own(comm) && peers_of(comm) > 1) {
      CommState::of(comm)->note_duplication();
    }
    return MPI_SUCCESS;
  });
}

int TAPA_Guest_idup_began(MPI_Comm comm, const MPI_Comm* made) {
  return contained("TAPA_Guest_idup_began", [&] {
    const bool alone = made != nullptr && !is_intercomm(comm) && peers_of(comm) == 1;
    duplication_began(alone ? nullptr : made);
    return MPI_SUCCESS;
  });
}

int TAPA_Guest_end(void) {
  CommState::end_all();
  return MPI_SUCCESS;
}

int TAPA_Get_version(int* major, int* minor, int* patch) {
  if (major != nullptr) *major = TAPA_VERSION_MAJOR;
  if (minor != nullptr) *minor = TAPA_VERSION_MINOR;
  if (patch != nullptr) *patch = TAPA_VERSION_PATCH;
  return MPI_SUCCESS;
}

}  // extern "C"
