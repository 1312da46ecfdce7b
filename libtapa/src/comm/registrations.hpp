/// @file
/// Which allocations of this rank are registered for receiving on a device communicator, which should be, and
/// which no longer are right. Ranks do it together, as it is collective. Pure: no MPI, no driver. Once made
/// it asks for no memory: others would wait for a rank that turns back where it has none.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "run/cuda_driver.hpp"

namespace tapa {

class Registrations {
 public:
  static constexpr std::size_t kMost = 16;              ///< windows at a time
  static constexpr std::size_t kMostUses = 2 * kMost;   ///< of allocations that are not registered
  static constexpr std::size_t kLongBlock = 512 << 10;  ///< bytes; shorter blocks need none
  static constexpr int kUses = 3;                       ///< calls after which an allocation is worth it
  static constexpr std::size_t kMostEvictions = 64;     ///< a program that never comes back to its buffers

  Registrations() {
    entries_.reserve(kMost);
    uses_.reserve(kMostUses);
  }

  /// Whether a window lies where `memory` does, of an allocation that is gone, into which peers would store.
  [[nodiscard]] bool stale(const CudaMemory& memory) const {
    return std::ranges::any_of(entries_, [&](const Entry& entry) {
      if (!entry.memory || entry.memory->buffer == memory.buffer) return false;
      return entry.memory->base < memory.base + memory.bytes &&
             memory.base < entry.memory->base + entry.memory->bytes;
    });
  }

  /// Counts a call that receives in `memory`, blocks of `longest` bytes at most; whether to register it.
  [[nodiscard]] bool wanted(const CudaMemory& memory, std::size_t longest) {
    if (!memory.on_device || !memory.shareable || longest <= kLongBlock || evictions_ >= kMostEvictions)
      return false;
    const auto same = [&](const Entry& e) { return e.memory && e.memory->buffer == memory.buffer; };
    if (std::ranges::any_of(entries_, same)) return false;
    auto use = std::ranges::find(uses_, memory.buffer, &Use::buffer);
    if (use == uses_.end()) {
      if (uses_.size() == kMostUses) uses_.erase(uses_.begin());
      use = uses_.insert(uses_.end(), {memory.buffer, 0});
    }
    return ++use->calls >= kUses;
  }

  /// The window to give up before another is made; alike on all ranks, as all make the same ones.
  [[nodiscard]] std::optional<int> to_evict() const {
    return entries_.size() < kMost ? std::nullopt : oldest();
  }
  /// The oldest window is gone, to make room for another one or not.
  void evict() {
    drop();
    ++evictions_;
  }
  void drop() { entries_.erase(entries_.begin()); }
  /// A window was made for this rank's memory; none: it only takes part.
  void add(int window, const std::optional<CudaMemory>& memory) {
    if (memory) std::erase_if(uses_, [&](const Use& use) { return use.buffer == memory->buffer; });
    entries_.push_back({window, memory});
  }

  [[nodiscard]] std::optional<int> oldest() const {
    if (entries_.empty()) return std::nullopt;
    return entries_.front().window;
  }

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
