/* A library that somebody has put where another is looked for. */
#include <stdio.h>

__attribute__((constructor)) static void run(void) {
  puts("planted");
}
