/// @file
/// A byte stream from one process to another through shared memory: one writer, one reader, no locks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/pieces.hpp"

namespace tapa {

/// The part of a ring that lies in shared memory, zero-initialised and never constructed there; data follow
/// it.
struct RingHeader {
  alignas(64) std::atomic<std::uint64_t> written;  ///< bytes ever written; only the writer changes it
  alignas(64) std::atomic<std::uint64_t> read;     ///< bytes ever read; only the reader changes it
  std::atomic<std::uint32_t> starved;  ///< the writer found no room and wants to be woken by the reader
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// One end's view of a ring.
class ShmRing {
 public:
  ShmRing() = default;
  /// A ring of `capacity` bytes, a power of two, at `memory`, which has bytes_for(capacity) bytes.
  ShmRing(void* memory, std::size_t capacity)
      : header_(static_cast<RingHeader*>(memory)),
        data_(static_cast<std::byte*>(memory) + sizeof(RingHeader)),
        capacity_(capacity) {}

  static constexpr std::size_t kMaxCapacity = std::size_t{1} << 15;
  /// Memory for a ring of this capacity.
  static constexpr std::size_t bytes_for(std::size_t capacity) { return sizeof(RingHeader) + capacity; }

  /// Copies as much of `from` as there is room for, at most all of it; returns how much. Writer only.
  std::size_t write(std::span<const std::byte> from);

  /// Bytes that can be written now. Writer only.
  [[nodiscard]] std::size_t writable() const {
    return capacity_ -
           (header_->written.load(std::memory_order_relaxed) - header_->read.load(std::memory_order_acquire));
  }

  /// The same for what `from` walks over, from where it stands.
  std::size_t write(PieceCursor& from);

  /// Asks to be woken. Writer only, after a write that came up short; then look for room once more.
  void wait_for_room();

  /// Bytes that can be read now. Reader only.
  [[nodiscard]] std::size_t readable() const {
    return header_->written.load(std::memory_order_acquire) - header_->read.load(std::memory_order_relaxed);
  }

  /// Copies up to to.size() readable bytes out; returns how many. Reader only.
  std::size_t read_some(std::span<std::byte> to);

  /// The same for memory that `to` walks over; what belongs at null is dropped.
  std::size_t read_some(PieceCursor& to);

  /// Whether the writer asked to be woken since the last call. Reader only, after reading.
  [[nodiscard]] bool take_request();

 private:
  void copy_in(std::uint64_t position, std::span<const std::byte> from);
  void copy_out(std::uint64_t position, std::span<std::byte> to) const;

  RingHeader* header_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t capacity_ = 0;
};

}  // namespace tapa
