/// @file
/// What CUDA's driver knows of the memory at an address, of cudaMalloc or of the calls for virtual memory.
#pragma once

#include <cstdint>
#include <optional>

#include "device/segments.hpp"

namespace tapa::device {

/// The allocation that an address lies in; nothing when the driver does not say.
[[nodiscard]] std::optional<Segment> allocation_at(std::uint64_t address);

/// The number of that allocation, which no later one gets in this process; 0 when there is none, nothing when
/// the driver does not say.
[[nodiscard]] std::optional<std::uint64_t> allocation_id(std::uint64_t address);

/// Whether the driver says that CUDA IPC does not share it: asked, so that no call fails where nothing is
/// wrong, which tools such as compute-sanitizer would report.
[[nodiscard]] bool is_without_ipc(std::uint64_t address);

/// Whether what is mapped there was made with file descriptors as handles, which can be given to others.
[[nodiscard]] bool has_descriptors(std::uint64_t address);

}  // namespace tapa::device
