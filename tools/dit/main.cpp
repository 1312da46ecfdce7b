// dit: images from diffusion transformers on one rank or many, and what it takes to judge them.
#include <malloc.h>

#include "command_line.hpp"
#include "lost_output.h"

int main(int argc, char** argv) {
  // Tensors come and go at every operation: their pages stay with the program instead of being cleared anew
  // each time.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  skip_library_destructors();
  return dit::tool::run(argc, argv);
}
