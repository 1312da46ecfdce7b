/* --help and --version of the examples, which hold nothing but what they show: answered before main, by the
 * words that CMakeLists.txt has for each. */
#include <stdlib.h>

#include "plain_flags.h"

__attribute__((constructor)) static void answer_flags(int argc, char** argv, char** environment) {
  (void)environment;
  const int status = plain_flags(argc, argv, EXAMPLE_USAGE "\n");
  if (status >= 0) exit(status);
}
