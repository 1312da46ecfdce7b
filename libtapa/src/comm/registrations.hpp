/// @file
/// Which allocations of this rank are registered for receiving on a device communicator, which should be, and
/// which no longer are right. Ranks do it together, as it is collective. Pure: no MPI, no driver. Once made
/// it asks for no memory: others would wait for a rank that turns back where it has none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "run/cuda_driver.hpp"

namespace tapa {

class Registrations {
 public:
  static constexpr std::size_t kMost = 16;              ///< windows at a time
  static constexpr std::size_t kLongBlock = 512 << 10;  ///< bytes; shorter blocks need none
  static constexpr int kUses = 3;                       ///< calls after which an allocation is worth it
  static constexpr std::size_t kMostEvictions = 64;     ///< a program that never comes back to its buffers

  Registrations();

  /// Whether a window lies where `memory` does, of an allocation that is gone, into which peers would store.
  [[nodiscard]] bool stale(const CudaMemory& memory) const;

  /// Counts a call that receives in `memory`, blocks of `longest` bytes at most; whether to register it.
  [[nodiscard]] bool wanted(const CudaMemory& memory, std::size_t longest);

  /// The window to give up before another is made; alike on all ranks, as all make the same ones.
  [[nodiscard]] std::optional<int> to_evict() const;
  /// The oldest window is gone, to make room for another one or not.
  void evict();
  void drop();
  /// A window was made for this rank's memory; none: it only takes part.
  void add(int window, const std::optional<CudaMemory>& memory);

  [[nodiscard]] std::optional<int> oldest() const;

 private:
  struct Entry {
    int window;
    std::optional<CudaMemory> memory;
  };
  struct Use {
    std::uint64_t buffer;
    int calls;
  };
  std::vector<Entry> entries_;  // the oldest first
  std::vector<Use> uses_;       // likewise, of allocations that are not registered
  std::size_t evictions_ = 0;
};

}  // namespace tapa
