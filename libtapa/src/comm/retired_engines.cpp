#include "comm/retired_engines.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <vector>

#include "run/device_memory.hpp"
#include "run/error.hpp"
#include "run/locked.hpp"
#include "run/on_all_ranks.hpp"
#include "run/world.hpp"

namespace tapa {

namespace {

struct Retired {
  std::vector<DeviceEngine> engines;
  std::size_t lost = 0;  // weight of those whose memory stays until the process ends
};

constexpr std::size_t kMostEngines = 8;  // engines in one go
using Numbers = std::array<std::uint64_t, kMostEngines>;

/// Takes the oldest that had the ranks of `comm` off the list, in order of numbers.
std::vector<DeviceEngine> take(MPI_Comm comm) {
  std::vector<DeviceEngine> taken;
  std::erase_if(locked<Retired>()->engines, [&](const DeviceEngine& old) {
    int result = MPI_UNEQUAL;
    const bool same = taken.size() < kMostEngines &&
                      PMPI_Comm_compare(comm, old.comm, &result) == MPI_SUCCESS && result == MPI_CONGRUENT;
    if (same) taken.push_back(old);
    return same;
  });
  std::ranges::sort(taken, {}, &DeviceEngine::number);
  return taken;
}

/// Which of `mine` all ranks have. Collective.
std::vector<bool> had_by_all(const std::vector<DeviceEngine>& mine, MPI_Comm comm) {
  Numbers own{};
  for (std::size_t i = 0; i < mine.size(); ++i) own[i] = mine[i].number;
  std::vector<Numbers> all(static_cast<std::size_t>(size_of(comm)));
  constexpr int count = kMostEngines;
  check_mpi(PMPI_Allgather(own.data(), count, MPI_UINT64_T, all.data(), count, MPI_UINT64_T, comm),
            "MPI_Allgather");
  std::vector<bool> had(mine.size());
  for (std::size_t i = 0; i < mine.size(); ++i) {
    had[i] = std::ranges::all_of(
        all, [&](const Numbers& theirs) { return std::ranges::find(theirs, own[i]) != theirs.end(); });
  }
  return had;
}

/// Who frees an engine waits for the others, unless it has failed: all free it or none.
void free_engine(DeviceEngine old, MPI_Comm comm) {
  const bool here = old.context_lives();
  const bool sound = here && TAPA_Device_query(old.engine, nullptr) == TAPA_DEVICE_SUCCESS;
  if (on_all_ranks(comm, sound)) {
    TAPA_Device_comm_free(&old.engine);
    cuda_driver()->end_stream(old.near, old.stream);
    cuda_driver()->free_device(old.near, old.probe);
  } else if (here) {
    locked<Retired>()->lost += old.weight;
  }
  PMPI_Comm_free(&old.comm);
}

}  // namespace

bool DeviceEngine::context_lives() const {
  const CudaDriver* const driver = cuda_driver();
  return driver != nullptr && probe_id != 0 && driver->memory(probe).buffer == probe_id;
}

std::uint64_t new_engine_number() {
  static constinit std::atomic<std::uint64_t> last = 0;
  return ++last;
}

void retire_engine(const DeviceEngine& engine) {
  locked<Retired>()->engines.push_back(engine);
}

bool too_many_retired_engines() {
  const auto retired = locked<Retired>();
  std::size_t kept = retired->lost;
  for (const DeviceEngine& engine : retired->engines) kept += engine.weight;
  return kept >= kMostRetiredEngines;
}

void free_retired_engines(MPI_Comm comm) {
  const std::vector<DeviceEngine> mine = take(comm);
  const std::vector<bool> had = had_by_all(mine, comm);
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (had[i])
      free_engine(mine[i], comm);
    else
      retire_engine(mine[i]);
  }
}

}  // namespace tapa
