/// @file
/// operator new of the whole program, with the library that is linked into it, refuses memory. Included once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

/// What asks for as much memory or more is refused it, where its turn has come.
inline constinit std::atomic<std::size_t> refused_from{kNone};
inline constinit std::atomic<long> grants_left{
    0};  // requests of such a length before the first that is refused
inline constinit std::atomic<long> refusals_left{0};

/// Whether who asks now must not fail, and is not refused.
inline bool (*is_spared)() = nullptr;

/// Whether who is refused may take what the library has set aside (common/memory/reserve.hpp).
inline bool has_reserve = false;

/// While it lives `times` requests for `from` bytes or more fail, after the first `grants` of them.
class Refusing {
 public:
  explicit Refusing(std::size_t from, long grants = 0, long times = std::numeric_limits<long>::max()) {
    grants_left = grants;
    refusals_left = times;
    refused_from = from;
  }
  ~Refusing() { refused_from = kNone; }
  Refusing(const Refusing&) = delete;
  Refusing& operator=(const Refusing&) = delete;
  /// Whether it has refused any.
  [[nodiscard]] static bool some() { return grants_left < 0; }
};

inline bool is_refused(std::size_t bytes) {
  return bytes >= refused_from && (is_spared == nullptr || !is_spared()) && grants_left.fetch_sub(1) <= 0 &&
         refusals_left.fetch_sub(1) > 0;
}

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  for (;;) {
    if (void* const memory = is_refused(bytes) ? nullptr : std::malloc(bytes)) return memory;
    const std::new_handler handler = has_reserve ? std::get_new_handler() : nullptr;
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
