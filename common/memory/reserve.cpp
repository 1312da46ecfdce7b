#include "memory/reserve.hpp"

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <mutex>
#include <new>
#include <utility>

namespace memory {

namespace {

constexpr std::size_t kBytes = std::size_t{4} << 20;  // never touched
constinit std::atomic<void*> reserve{nullptr};
constinit std::mutex spending;
constinit unsigned spent = 0;                    // how often; guarded by it
constinit thread_local unsigned seen_spent = 0;  // then this thread tried in vain, or had it
constexpr std::size_t kLong = std::size_t{64} << 10;
constinit thread_local bool asks_for_long = false;

/// operator new tries again after it: also where another thread has spent it since this one's last try.
void spend() {
  if (asks_for_long) throw std::bad_alloc();
  const std::lock_guard lock(spending);
  if (void* const kept = reserve.exchange(nullptr)) {
    ::munmap(kept, kBytes);
    seen_spent = ++spent;
  } else if (std::exchange(seen_spent, spent) == spent) {
    throw std::bad_alloc();
  }
}

}  // namespace

void keep_reserve() noexcept {
  const std::new_handler handler = std::get_new_handler();
  if (handler == nullptr) std::set_new_handler(spend);
  if (handler != nullptr && handler != spend) return;
  if (reserve.load(std::memory_order_relaxed) != nullptr) return;
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
