#define DIT_KERNELS kPortableKernels
#define DIT_KERNELS_NAME "plain"
#include "wire/codec_loops.hpp"
