/// @file
/// Device memory as PyTorch's expandable segments make it: allocations of the calls for virtual memory,
/// mapped side by side.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tapa::bench {

class SegmentedMemory {
 public:
  /// At least `bytes` bytes of the current device, in segments of one to three pages each. `shareable`: with
  /// handles that can be given to other processes. Throws std::runtime_error.
  SegmentedMemory(std::size_t bytes, bool shareable);
  ~SegmentedMemory();
  SegmentedMemory(const SegmentedMemory&) = delete;
  SegmentedMemory& operator=(const SegmentedMemory&) = delete;

  [[nodiscard]] char* get() const { return reinterpret_cast<char*>(base_); }
  [[nodiscard]] std::size_t bytes() const { return reserved_; }

  /// Other allocations at the same addresses.
  void replace();

 private:
  void map_all();
  void map(std::size_t bytes);
  void unmap();
  void release();
  bool shareable_;
  std::uint64_t base_ = 0;
  std::size_t reserved_ = 0;
  std::size_t mapped_ = 0;
};

}  // namespace tapa::bench
