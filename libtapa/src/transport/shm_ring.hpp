/// @file
/// A byte stream from one process to another through shared memory: one writer, one reader, no locks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tapa {

/// Lives in shared memory, zero-initialised; never constructed or destroyed there.
struct ShmRing {
  static constexpr std::size_t kCapacity = std::size_t{1} << 15;  ///< bytes in flight; a power of two

  alignas(64) std::atomic<std::uint64_t> written;  ///< bytes ever written; only the writer changes it
  alignas(64) std::atomic<std::uint64_t> read;     ///< bytes ever read; only the reader changes it
  std::atomic<std::uint32_t> starved;  ///< the writer found no room and wants to be woken by the reader
  alignas(64) std::byte data[kCapacity];

  /// Copies as much of `from` as there is room for, at most all of it; returns how much. Writer only.
  std::size_t write(std::span<const std::byte> from);

  /// Bytes that can be read now. Reader only.
  [[nodiscard]] std::size_t readable() const {
    return written.load(std::memory_order_acquire) - read.load(std::memory_order_relaxed);
  }

  /// Bytes that can be written now. Writer only.
  [[nodiscard]] std::size_t writable() const {
    return kCapacity - (written.load(std::memory_order_relaxed) - read.load(std::memory_order_acquire));
  }

  /// Asks to be woken, unless there is room after all. Writer only, after a write that came up short.
  void wait_for_room();

  /// Whether the writer asked to be woken since the last call. Reader only, after reading.
  [[nodiscard]] bool take_request();

  /// Copies up to to.size() readable bytes out; returns how many. Reader only.
  std::size_t read_some(std::span<std::byte> to);
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace tapa
