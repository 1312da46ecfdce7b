/// @file
/// Memory of the host in which buffers of a device are for the time of a call.
#pragma once

#include <cstddef>

#include "run/cuda_driver.hpp"

namespace tapa {

/// Owned while it lives. Pinned memory takes long to make, so the process keeps some of it for the next call.
class StagingMemory {
 public:
  StagingMemory() = default;
  /// `span` bytes, of which `used` will be touched: where that is little, pages are made as they are touched.
  /// `near`: the device's memory. Throws std::bad_alloc.
  StagingMemory(CudaDriver& driver, const CudaMemory& near, std::size_t span, std::size_t used);
  ~StagingMemory();
  StagingMemory(StagingMemory&& other) noexcept;
  StagingMemory& operator=(StagingMemory&& other) noexcept;

  [[nodiscard]] std::byte* get() const { return memory_; }

 private:
  CudaDriver* driver_ = nullptr;  // when the memory is pinned
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace tapa
