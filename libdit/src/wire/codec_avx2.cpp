#define DIT_KERNELS kAvx2Kernels
#define DIT_KERNELS_NAME "AVX2"
#include "wire/codec_loops.hpp"
