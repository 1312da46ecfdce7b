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
  [[nodiscard]] std::size_t bytes(std::size_t piece) const { return std::min(each, whole - begin(piece)); }

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

  /// The next piece, for whoever asks first. Nothing when all are taken, or the block is not of that round.
  [[nodiscard]] std::optional<std::size_t> take(std::uint64_t round, std::size_t pieces) {
    std::uint64_t seen = next_.load(std::memory_order_acquire);
    do {
      if (seen / kRound != round || seen % kRound >= pieces) return std::nullopt;
    } while (
        !next_.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel, std::memory_order_acquire));
    return static_cast<std::size_t>(seen % kRound);
  }

  /// Reader: nobody takes any more. How many were taken.
  std::size_t close(std::uint64_t round, std::size_t pieces) {
    const std::uint64_t taken =
        next_.exchange(round * kRound + kRound - 1, std::memory_order_acq_rel) % kRound;
    return static_cast<std::size_t>(std::min<std::uint64_t>(taken, pieces));
  }

  /// Sender: where the block belongs. After take().
  [[nodiscard]] std::uint64_t address() const { return address_.load(std::memory_order_relaxed); }
  /// Sender: a piece that it took is there, or could not be moved.
  void tell_moved(bool there) { moved_.fetch_add(there ? 1 : 1 + kFailed, std::memory_order_release); }

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
