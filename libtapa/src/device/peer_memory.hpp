/// @file
/// Device memory of one process in others, by CUDA IPC or by handles of its allocations.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "device/handle_post.hpp"
#include "device/virtual_memory.hpp"

namespace tapa::device {

/// Device memory as one rank tells others of it.
struct Export {
  enum class By { nothing, ipc, handles };
  By by;                   ///< nothing: it cannot be shared; handles: they come by post_handles()
  std::uint64_t offset;    ///< of the memory in its allocation, or in the first of those that have handles
  cudaIpcMemHandle_t ipc;  ///< of the allocation
};

/// What a rank exports, and the handles that go with it.
struct Offer {
  Export how{};
  std::vector<Handle> handles;
};

/// Throws no error when memory cannot be shared.
[[nodiscard]] Offer export_memory(void* memory, std::size_t bytes);

/// Memory of another process, mapped while this lives.
class Import {
 public:
  /// `handles`: those of the rank whose export it is. Throws DeviceError.
  explicit Import(const Export& from, const std::vector<Handle>& handles = {});
  ~Import();
  Import(Import&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)),
        mapping_(std::move(other.mapping_)),
        offset_(other.offset_) {}
  Import& operator=(Import&&) = delete;

  [[nodiscard]] std::byte* get() const { return (mapping_ ? mapping_->get() : base_) + offset_; }

 private:
  std::byte* base_ = nullptr;  ///< by IPC
  std::optional<VirtualMapping> mapping_;
  std::uint64_t offset_;
};

}  // namespace tapa::device
