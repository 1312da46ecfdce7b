/// @file
/// Registered memory of all ranks: who has what mapped, and the table that kernels read. Numbers of windows
/// are alike on all ranks, as registering is collective.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "device/agreement.hpp"
#include "device/allocations.hpp"
#include "device/cuda_objects.hpp"
#include "device/peer_memory.hpp"
#include "device/words.hpp"

namespace tapa::device {

class Windows {
 public:
  /// On the current device. Throws DeviceError.
  explicit Windows(const Agreement& agreement);

  /// Registers this rank's memory (null, 0 bytes: none) and returns the window's number. Collective, in a
  /// step of Agreement::together(). Throws DeviceError. `flags`: 0 or TAPA_DEVICE_SYMMETRIC.
  int add(void* memory, std::size_t bytes, int flags);
  /// Collective; the same number on all ranks. Throws DeviceError.
  void remove(int window);
  /// Whether peers store right into this rank's part. Throws DeviceError for an unknown number.
  [[nodiscard]] bool is_direct(int window) const;

  /// Finds where the blocks of one call are received.
  class Finder {
   public:
    explicit Finder(Windows& windows) : windows_(windows) {}
    /// The place of `bytes` bytes of this rank's memory in a window that peers can reach; staging where there
    /// is none, also because the memory of one is gone, and other memory has its addresses. Throws
    /// DeviceError where that one is symmetric, as peers may store into it without asking.
    [[nodiscard]] Target find(const std::byte* memory, Word bytes);

   private:
    Windows& windows_;
    Allocations::Asked asked_;
  };

  /// Throws DeviceError unless this rank's part of a window is the memory that was registered.
  void require_unfreed(int window) const;

  /// Where a rank's part of a symmetric window lies for this one; null unless all ranks have all parts
  /// mapped.
  [[nodiscard]] std::byte* symmetric_base(Word window, int rank) const;

  /// windows[window * kMaxRanks + rank], in device memory.
  [[nodiscard]] std::byte* const* table() const { return reinterpret_cast<std::byte* const*>(table_.get()); }

  /// Throws DeviceError, on all ranks alike, unless every rank can reach every part of a window.
  void require_reachable(int window) const;
  /// Where a rank's part of a window lies for this one. Throws DeviceError when the rank registered none, or
  /// it cannot be reached.
  [[nodiscard]] std::byte* memory_of(int window, int rank) const;

  /// Unmaps all. Local.
  void close();

 private:
  struct Window {
    std::byte* begin;
    std::size_t bytes;
    Allocations allocations;                     ///< behind them
    bool direct;                                 ///< this rank's part
    bool reachable;                              ///< all parts that there are, by all ranks
    bool symmetric;                              ///< likewise, registered by the rules of symmetric windows
    std::vector<bool> exists;                    ///< whether each rank has a part
    std::vector<std::optional<Import>> imports;  ///< of each rank
  };
  [[nodiscard]] const Window& at(int window) const;
  /// Which ranks register memory. Throws when the ranks' arguments do not fit together.
  [[nodiscard]] std::vector<bool> check_alike(std::size_t bytes, int flags) const;
  std::vector<std::optional<Import>> import_all(const std::vector<Export>& exports,
                                                const std::vector<Delivery>& deliveries) const;
  void publish(int window, const std::vector<std::byte*>& bases);
  void warn_of_freed(int window);

  static constexpr int kWindows = 1024;
  const Agreement& agreement_;
  PrivateStream stream_;
  DeviceMemory table_;
  std::vector<int> free_;  ///< numbers; the one that has been free for longest is used next
  std::map<int, Window> windows_;
  bool warned_ = false;
  bool warned_of_freed_ = false;
};

}  // namespace tapa::device
