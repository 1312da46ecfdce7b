/// @file
/// Asking for a line of memory before it is written.
#pragma once

#include <cstddef>

namespace tapa {

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
