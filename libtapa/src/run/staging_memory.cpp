#include "run/staging_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace tapa {

namespace {

constexpr std::size_t kLeast = 64 << 10;
constexpr std::size_t kKept = 256 << 20;  // bytes that a process keeps at most
constexpr std::size_t kMostKept = 8;      // buffers

struct Kept {
  std::byte* memory;
  std::size_t bytes;
};
/// Pinned memory that is not in use.
struct Pool {
  std::mutex mutex;
  std::vector<Kept> kept;
};

// Never destroyed: calls may come while the process ends.
Pool& pool() {
  static auto* const instance = new Pool;
  return *instance;
}

/// The smallest of the kept ones that is long enough, though not far too long.
Kept take(std::size_t bytes) {
  const std::lock_guard lock(pool().mutex);
  auto& kept = pool().kept;
  auto best = kept.end();
  for (auto each = kept.begin(); each != kept.end(); ++each) {
    const bool fits = each->bytes >= bytes;
    if (fits && (best == kept.end() || each->bytes < best->bytes)) best = each;
  }
  if (best == kept.end()) return {nullptr, 0};
  const Kept taken = *best;
  kept.erase(best);
  return taken;
}

/// Keeps it and returns what is not kept any more.
std::vector<Kept> put_back(Kept memory) {
  const std::lock_guard lock(pool().mutex);
  auto& kept = pool().kept;
  kept.push_back(memory);
  std::vector<Kept> dropped;
  const auto total = [&] {
    std::size_t bytes = 0;
    for (const Kept& each : kept) bytes += each.bytes;
    return bytes;
  };
  while (!kept.empty() && (kept.size() > kMostKept || total() > kKept)) {
    dropped.push_back(kept.front());
    kept.erase(kept.begin());
  }
  return dropped;
}

std::byte* map(std::size_t bytes) {
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(memory);
}

}  // namespace

StagingMemory::StagingMemory(CudaDriver& driver, const CudaMemory& near, std::size_t span, std::size_t used) {
  const bool sparse = span / 2 > used + kLeast;
  bytes_ = sparse || span > kKept ? span : std::bit_ceil(std::max(span, kLeast));
  if (!sparse) {
    const Kept taken = take(bytes_);
    if (taken.memory != nullptr) {
      driver_ = &driver;
      memory_ = taken.memory;
      bytes_ = taken.bytes;
      return;
    }
  }
  memory_ = map(bytes_);
  try {
    if (!sparse && driver.pin(near, memory_, bytes_)) driver_ = &driver;
  } catch (...) {
    munmap(memory_, bytes_);
    throw;
  }
}

StagingMemory::~StagingMemory() {
  if (memory_ == nullptr) return;
  if (driver_ == nullptr) {
    munmap(memory_, bytes_);
    return;
  }
  for (const Kept& dropped : put_back({memory_, bytes_})) {
    driver_->unpin(dropped.memory);
    munmap(dropped.memory, dropped.bytes);
  }
}

StagingMemory::StagingMemory(StagingMemory&& other) noexcept
    : driver_(std::exchange(other.driver_, nullptr)),
      memory_(std::exchange(other.memory_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

StagingMemory& StagingMemory::operator=(StagingMemory&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace tapa
