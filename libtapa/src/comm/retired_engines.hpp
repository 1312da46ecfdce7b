/// @file
/// Device engines of freed communicators. To free one synchronises its ranks, which MPI_Comm_free may not do:
/// it waits until the same ranks start another, or the process ends.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>

#include "run/cuda_driver.hpp"
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

  /// Whether what it has on the device is still there: programs reset it.
  [[nodiscard]] bool context_lives() const;
};

/// A process keeps so many of one node at most; then it starts no other one.
inline constexpr std::size_t kMostRetiredEngines = 64;
/// An engine between nodes has some 200 MiB more on its device.
inline constexpr std::size_t kWeightBetweenNodes = 4;

/// For DeviceEngine::number, on its rank 0.
[[nodiscard]] std::uint64_t new_engine_number();

/// Local. The engine and its communicator belong to this room from now on.
void retire_engine(const DeviceEngine& engine);
[[nodiscard]] bool too_many_retired_engines();

/// Frees engines that all ranks of `comm` have retired and that had the same ranks. Collective over `comm`.
void free_retired_engines(MPI_Comm comm);

}  // namespace tapa
