/// @file
/// Device memory that was made and mapped by the calls for virtual memory (cuMemCreate, cuMemMap), as
/// PyTorch's expandable segments are: CUDA IPC does not share it, but handles of its allocations can be.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "device/handle_post.hpp"

namespace tapa::device {

/// The allocations that a buffer lies in.
struct VirtualExport {
  std::vector<Handle> handles;
  std::uint64_t offset = 0;  ///< of the buffer in the first one
};

/// None when the memory is of another kind, or was made without a handle type that can be shared
/// (CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR).
[[nodiscard]] std::optional<VirtualExport> export_virtual(void* memory, std::size_t bytes);

/// Allocations of another process side by side, mapped for the current device while this lives.
class VirtualMapping {
 public:
  /// Throws DeviceError. The handles are not needed afterwards.
  explicit VirtualMapping(const std::vector<Handle>& handles);
  ~VirtualMapping();
  VirtualMapping(VirtualMapping&& other) noexcept
      : base_(std::exchange(other.base_, 0)),
        reserved_(std::exchange(other.reserved_, 0)),
        mapped_(std::exchange(other.mapped_, 0)) {}
  VirtualMapping& operator=(VirtualMapping&&) = delete;

  [[nodiscard]] std::byte* get() const { return reinterpret_cast<std::byte*>(base_); }

 private:
  void map(const Handle& handle);
  void release() noexcept;
  std::uint64_t base_ = 0;
  std::size_t reserved_ = 0;
  std::size_t mapped_ = 0;  ///< of them, from the begin on
};

}  // namespace tapa::device
