/// @file
/// Memory of GPUs, which the processor may not be able to touch: whether a process can have any, and which
/// addresses are such. Asked of the drivers that the process itself has loaded; none is loaded or initialised
/// for it. Pure: no MPI. Thread-safe.
#pragma once

#include <cstdint>

#include "run/cuda_driver.hpp"

namespace tapa {

/// Whether CUDA's, ROCm's or Level Zero's driver is loaded in this process and initialised; so it stays.
/// Before that there is no memory of a GPU. Cheap.
[[nodiscard]] bool gpu_in_use();

/// The last answer of gpu_in_use(): a load, for calls that may be as short as a hundred nanoseconds. False
/// does not mean that there is none by now.
[[nodiscard]] bool gpu_was_in_use();

/// Whose driver that is: `cuda` when CUDA's alone is in use, and can copy between its memory and the host's.
enum class GpuUse : std::uint8_t { none, cuda, others };
[[nodiscard]] GpuUse gpu_use();

/// CUDA's driver when the process has loaded and initialised it, else null. As of the last call of one of the
/// others here.
[[nodiscard]] CudaDriver* cuda_driver();

/// Whether an address lies in a GPU's memory, now: drivers give addresses again, for other kinds of memory.
/// Memory that GPU and processor share (managed, pinned) does not.
[[nodiscard]] bool is_device_memory(const void* address);

}  // namespace tapa
