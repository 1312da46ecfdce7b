/// @file
/// What goes by the lines of a cache: where slots begin, and asking for one before it is written.
#pragma once

#include <cstddef>

namespace tapa {

/// Bytes of slots that lie one behind the other and have so many at most: whole lines, and an odd number of
/// them, so that slots begin in different sets of a cache.
constexpr std::size_t odd_lines(std::size_t bytes) {
  const std::size_t lines = bytes / 64;
  return (lines % 2 == 0 && lines > 0 ? lines - 1 : lines) * 64;
}

/// Asks for a line that is written soon. The compiler's own way asks for a copy to read, where it does not
/// know the processor: writing would have to ask again.
inline void expect_to_write(const void* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" ::"m"(*static_cast<const std::byte*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

}  // namespace tapa
