/// @file
/// Memory of the host that several processes and their devices use: pages of a file without a name, which
/// ends with its last user, however that ends, and takes nothing of /dev/shm.
#pragma once

#include <cstddef>
#include <utility>

#include "device/handle_post.hpp"

namespace tapa::device {

/// A new file of so many bytes, zeros. Throws DeviceError.
[[nodiscard]] Handle make_shared_file(std::size_t bytes);

/// A part of such a file, mapped for this process and all of its devices, under one address.
class SharedPages {
 public:
  /// `at` and `bytes`: multiples of kSharedPage. Throws DeviceError.
  SharedPages(const Handle& file, std::size_t at, std::size_t bytes);
  ~SharedPages();
  SharedPages(SharedPages&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_) {}
  SharedPages& operator=(SharedPages&&) = delete;

  [[nodiscard]] std::byte* get() const { return memory_; }

 private:
  std::byte* memory_ = nullptr;
  std::size_t bytes_;
};

inline constexpr std::size_t kSharedPage = 4096;

}  // namespace tapa::device
