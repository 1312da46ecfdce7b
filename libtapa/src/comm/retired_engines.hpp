/// @file
/// Device engines of freed communicators. To free one synchronises its ranks, which MPI_Comm_free may not do:
/// it waits until the same ranks start another, or the process ends.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "run/cuda_driver.hpp"
#include "run/device_memory.hpp"
#include "run/error.hpp"
#include "run/locked.hpp"
#include "run/on_all_ranks.hpp"
#include "run/world.hpp"
#include "tapa/device.h"

namespace tapa {

/// An engine and what was made for it.
struct DeviceEngine {
  TAPA_Device_comm engine = TAPA_DEVICE_COMM_NULL;
  MPI_Comm comm = MPI_COMM_NULL;  ///< of its ranks, for nothing else
  std::uint64_t number = 0;       ///< alike on its ranks; no other engine of its rank 0 has it
  CudaMemory near;                ///< on its device
  CudaStream stream = nullptr;
  void* probe = nullptr;  ///< device memory, to see whether the program has reset the device
  std::uint64_t probe_id = 0;
  std::size_t weight = 1;  ///< what it keeps, in engines of one node

  /// An engine between nodes has some 200 MiB more on its device.
  static constexpr std::size_t kWeightBetweenNodes = 4;

  /// For `number`, on its rank 0.
  [[nodiscard]] static std::uint64_t new_number() {
    static constinit std::atomic<std::uint64_t> last = 0;
    return ++last;
  }
  /// Whether what it has on the device is still there: programs reset it.
  [[nodiscard]] bool context_lives() const {
    const CudaDriver* const driver = cuda_driver();
    return driver != nullptr && probe_id != 0 && driver->memory(probe).buffer == probe_id;
  }
};

/// Those of the process.
class RetiredEngines {
 public:
  /// Local. The engine and its communicator belong to this room from now on.
  static void add(const DeviceEngine& engine) { locked<Retired>()->engines.push_back(engine); }
  [[nodiscard]] static bool are_too_many() {
    const auto retired = locked<Retired>();
    std::size_t kept = retired->lost;
    for (const DeviceEngine& engine : retired->engines) kept += engine.weight;
    return kept >= kMost;
  }
  /// Frees engines that all ranks of `comm` have retired and that had the same ranks. Collective over `comm`.
  static void free_those_of(MPI_Comm comm) {
    const std::vector<DeviceEngine> mine = take(comm);
    const std::vector<bool> had = had_by_all(mine, comm);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      if (had[i])
        free_engine(mine[i], comm);
      else
        add(mine[i]);
    }
  }

 private:
  struct Retired {
    std::vector<DeviceEngine> engines;
    std::size_t lost = 0;  // weight of those whose memory stays until the process ends
  };

  /// A process keeps so many of one node at most; then it starts no other one.
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kMostAtOnce = 8;
  using Numbers = std::array<std::uint64_t, kMostAtOnce>;

  /// Takes the oldest that had the ranks of `comm` off the list, in order of numbers.
  static std::vector<DeviceEngine> take(MPI_Comm comm) {
    std::vector<DeviceEngine> taken;
    std::erase_if(locked<Retired>()->engines, [&](const DeviceEngine& old) {
      int result = MPI_UNEQUAL;
      const bool same = taken.size() < kMostAtOnce &&
                        PMPI_Comm_compare(comm, old.comm, &result) == MPI_SUCCESS && result == MPI_CONGRUENT;
      if (same) taken.push_back(old);
      return same;
    });
    std::ranges::sort(taken, {}, &DeviceEngine::number);
    return taken;
  }

  /// Which of `mine` all ranks have. Collective.
  static std::vector<bool> had_by_all(const std::vector<DeviceEngine>& mine, MPI_Comm comm) {
    Numbers own{};
    for (std::size_t i = 0; i < mine.size(); ++i) own[i] = mine[i].number;
    std::vector<Numbers> all(static_cast<std::size_t>(size_of(comm)));
    constexpr int count = kMostAtOnce;
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
  static void free_engine(DeviceEngine old, MPI_Comm comm) {
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
};

}  // namespace tapa
