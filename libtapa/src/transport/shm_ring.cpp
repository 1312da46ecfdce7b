#include "transport/shm_ring.hpp"

#include <algorithm>
#include <cstring>

namespace tapa {

std::size_t ShmRing::write(std::span<const std::byte> from) {
  const std::uint64_t position = header_->written.load(std::memory_order_relaxed);
  const std::size_t count = std::min(from.size(), writable());
  if (count == 0) return 0;
  const std::size_t at = position % capacity_;
  const std::size_t first = std::min(count, capacity_ - at);
  std::memcpy(data_ + at, from.data(), first);
  std::memcpy(data_, from.data() + first, count - first);
  header_->written.store(position + count, std::memory_order_release);
  return count;
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
  const std::uint64_t position = header_->read.load(std::memory_order_relaxed);
  const std::size_t count = std::min(to.size(), readable());
  if (count == 0) return 0;
  const std::size_t at = position % capacity_;
  const std::size_t first = std::min(count, capacity_ - at);
  std::memcpy(to.data(), data_ + at, first);
  std::memcpy(to.data() + first, data_, count - first);
  header_->read.store(position + count, std::memory_order_release);
  return count;
}

}  // namespace tapa
