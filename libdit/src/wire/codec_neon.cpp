#define DIT_KERNELS kNeonKernels
#define DIT_KERNELS_NAME "NEON"
#include "wire/codec_loops.hpp"
