#include "transport/shm_ring.hpp"

#include <algorithm>
#include <cstring>

namespace tapa {

void ShmRing::copy_in(std::uint64_t position, std::span<const std::byte> from) {
  const std::size_t at = position % capacity_;
  const std::size_t first = std::min(from.size(), capacity_ - at);
  std::memcpy(data_ + at, from.data(), first);
  std::memcpy(data_, from.data() + first, from.size() - first);
}

void ShmRing::copy_out(std::uint64_t position, std::span<std::byte> to) const {
  if (to.data() == nullptr) return;
  const std::size_t at = position % capacity_;
  const std::size_t first = std::min(to.size(), capacity_ - at);
  std::memcpy(to.data(), data_ + at, first);
  std::memcpy(to.data() + first, data_, to.size() - first);
}

std::size_t ShmRing::write(std::span<const std::byte> from) {
  const std::size_t count = std::min(from.size(), writable());
  if (count == 0) return 0;
  const std::uint64_t position = header_->written.load(std::memory_order_relaxed);
  copy_in(position, from.first(count));
  header_->written.store(position + count, std::memory_order_release);
  return count;
}

// The reader is told once, not for each piece.
std::size_t ShmRing::write(PieceCursor& from) {
  const std::size_t room = writable();
  const std::uint64_t position = header_->written.load(std::memory_order_relaxed);
  std::size_t done = 0;
  while (done < room) {
    const Piece piece = from.take(room - done);
    if (piece.empty()) break;
    copy_in(position + done, piece);
    done += piece.size();
  }
  if (done > 0) header_->written.store(position + done, std::memory_order_release);
  return done;
}

// The fences pair: either the writer sees the room that the reader made, or the reader sees the request.
void ShmRing::wait_for_room() {
  header_->starved.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

bool ShmRing::take_request() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return header_->starved.load(std::memory_order_relaxed) != 0 &&
         header_->starved.exchange(0, std::memory_order_relaxed) != 0;
}

std::size_t ShmRing::read_some(std::span<std::byte> to) {
  const std::size_t count = std::min(to.size(), readable());
  if (count == 0) return 0;
  const std::uint64_t position = header_->read.load(std::memory_order_relaxed);
  copy_out(position, to.first(count));
  header_->read.store(position + count, std::memory_order_release);
  return count;
}

std::size_t ShmRing::read_some(PieceCursor& to) {
  const std::size_t there = readable();
  const std::uint64_t position = header_->read.load(std::memory_order_relaxed);
  std::size_t done = 0;
  while (done < there) {
    const Piece piece = to.take(there - done);
    if (piece.empty()) break;
    copy_out(position + done, piece);
    done += piece.size();
  }
  if (done > 0) header_->read.store(position + done, std::memory_order_release);
  return done;
}

}  // namespace tapa
