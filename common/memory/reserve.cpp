#include "memory/reserve.hpp"

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <new>

namespace memory {

namespace {

constexpr std::size_t kBytes = std::size_t{4} << 20;  // never touched
constinit std::atomic<void*> reserve{nullptr};
constexpr std::size_t kLong = std::size_t{64} << 10;
constinit thread_local bool asks_for_long = false;

/// operator new tries again after it.
void spend() {
  void* const kept = asks_for_long ? nullptr : reserve.exchange(nullptr);
  if (kept == nullptr) throw std::bad_alloc();
  ::munmap(kept, kBytes);
}

}  // namespace

void keep_reserve() noexcept {
  if (reserve.load(std::memory_order_relaxed) != nullptr) return;
  const std::new_handler handler = std::get_new_handler();
  if (handler == nullptr) std::set_new_handler(spend);
  if (handler != nullptr && handler != spend) return;
  void* const made = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* none = nullptr;
  if (made != MAP_FAILED && !reserve.compare_exchange_strong(none, made)) ::munmap(made, kBytes);
}

std::unique_ptr<std::byte[]> for_blocks(std::size_t bytes) {
  struct Mark {
    explicit Mark(bool is_long) { asks_for_long = is_long; }
    ~Mark() { asks_for_long = false; }
  };
  const Mark mark(bytes >= kLong);
  return std::make_unique_for_overwrite<std::byte[]>(bytes);
}

}  // namespace memory
