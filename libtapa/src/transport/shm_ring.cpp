#include "transport/shm_ring.hpp"

#include <algorithm>
#include <cstring>

namespace tapa {

std::size_t ShmRing::write(std::span<const std::byte> from) {
  const std::uint64_t position = written.load(std::memory_order_relaxed);
  const std::size_t count = std::min(from.size(), writable());
  const std::size_t at = position % kCapacity;
  const std::size_t first = std::min(count, kCapacity - at);
  std::memcpy(data + at, from.data(), first);
  std::memcpy(data, from.data() + first, count - first);
  written.store(position + count, std::memory_order_release);
  return count;
}

// The fences pair: either the writer sees the room that the reader made, or the reader sees the request.
void ShmRing::wait_for_room() {
  starved.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (writable() == kCapacity) starved.store(0, std::memory_order_relaxed);
}

bool ShmRing::take_request() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return starved.load(std::memory_order_relaxed) != 0 && starved.exchange(0, std::memory_order_relaxed) != 0;
}

std::size_t ShmRing::read_some(std::span<std::byte> to) {
  const std::uint64_t position = read.load(std::memory_order_relaxed);
  const std::size_t count = std::min(to.size(), readable());
  const std::size_t at = position % kCapacity;
  const std::size_t first = std::min(count, kCapacity - at);
  std::memcpy(to.data(), data + at, first);
  std::memcpy(to.data() + first, data, count - first);
  read.store(position + count, std::memory_order_release);
  return count;
}

}  // namespace tapa
