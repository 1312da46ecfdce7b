/// @file
/// A block that both ends move: its reader from the sender's memory, its sender into the reader's.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace tapa {

/// How a block is divided: pieces of whole pages, so that few pages are asked for twice.
struct BlockPieces {
  static constexpr std::size_t kLeast = std::size_t{16} << 10;  ///< a system call each
  static constexpr std::size_t kMost = 32;

  explicit BlockPieces(std::size_t bytes) : whole(bytes) {
    constexpr std::size_t page = 4096;
    const std::size_t parts = std::clamp<std::size_t>(bytes / kLeast, 1, kMost);
    each = std::max(page, ((bytes + parts - 1) / parts + page - 1) / page * page);
    count = std::max<std::size_t>(1, (bytes + each - 1) / each);
  }
  [[nodiscard]] std::size_t begin(std::size_t piece) const { return piece * each; }
  /// Of so many pieces.
  [[nodiscard]] std::size_t bytes(std::size_t first, std::size_t count) const {
    return std::min(count * each, whole - begin(first));
  }

  std::size_t whole;
  std::size_t each = 0;  // bytes of all but the last
  std::size_t count = 0;
};

/// Which pieces of a block are taken. Its reader offers it, then both ends take pieces until none is left;
/// the reader waits for those that the sender has taken. Zero-initialised and never constructed.
///
/// Why no piece is moved in vain: a taken piece carries the round, and the reader offers the next one only
/// when the sender shows a block of a later round, so it has left this one.
class SharedBlock {
 public:
  /// Reader: the block of `round` belongs to `address` in its memory.
  void offer(std::uint64_t round, std::uint64_t address) {
    moved_.store(0, std::memory_order_relaxed);
    address_.store(address, std::memory_order_relaxed);
    next_.store(round * kRound, std::memory_order_release);
  }

  /// Pieces one after the other.
  struct Taken {
    std::size_t first = 0;
    std::size_t count = 0;
  };
  /// Half of the pieces that are left, or `all` of them, for whoever asks first: the fewer are left, the
  /// sooner the other end is done with its own. Nothing when all are taken, or the block is not of that
  /// round.
  [[nodiscard]] std::optional<Taken> take(std::uint64_t round, std::size_t pieces, bool all = false) {
    std::uint64_t seen = next_.load(std::memory_order_acquire);
    for (;;) {
      const std::uint64_t first = seen % kRound;
      if (seen / kRound != round || first >= pieces) return std::nullopt;
      const std::uint64_t left = pieces - first;
      const std::uint64_t count = all ? left : (left + 1) / 2;
      if (next_.compare_exchange_weak(seen, seen + count, std::memory_order_acq_rel,
                                      std::memory_order_acquire))
        return Taken{static_cast<std::size_t>(first), static_cast<std::size_t>(count)};
    }
  }

  /// Reader: nobody takes any more. How many were taken.
  std::size_t close(std::uint64_t round, std::size_t pieces) {
    const std::uint64_t taken =
        next_.exchange(round * kRound + kRound - 1, std::memory_order_acq_rel) % kRound;
    return static_cast<std::size_t>(std::min<std::uint64_t>(taken, pieces));
  }

  /// Sender: where the block belongs. After take().
  [[nodiscard]] std::uint64_t address() const { return address_.load(std::memory_order_relaxed); }
  /// Sender: pieces that it took are there, or could not be moved.
  void tell_moved(std::size_t count, bool there) {
    moved_.fetch_add(there ? count : count + kFailed, std::memory_order_release);
  }

  /// Reader: whether the sender is done with the `count` pieces that it took.
  [[nodiscard]] bool moved(std::size_t count) const {
    return moved_.load(std::memory_order_acquire) % kFailed == count;
  }
  /// Reader: whether it could not move one of them.
  [[nodiscard]] bool failed() const { return moved_.load(std::memory_order_relaxed) >= kFailed; }

 private:
  static constexpr std::uint64_t kRound = 1024;  // more than pieces
  static constexpr std::uint64_t kFailed = std::uint64_t{1} << 32;
  std::atomic<std::uint64_t> next_;     // round and number of the next piece
  std::atomic<std::uint64_t> address_;  // in the reader's memory
  std::atomic<std::uint64_t> moved_;    // by the sender
};

}  // namespace tapa
