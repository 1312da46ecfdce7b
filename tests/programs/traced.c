/* backtrace() as a sanitizer or a profiler puts it in place of the C library's: its own frame comes first. */
#define _GNU_SOURCE
#include <dlfcn.h>

int backtrace(void** frames, int most) {
  int (*const next)(void**, int) = (int (*)(void**, int))dlsym(RTLD_NEXT, "backtrace");
  volatile int depth = next(frames, most); /* else this frame is gone when it is called */
  return depth;
}
