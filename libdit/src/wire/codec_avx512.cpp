#define DIT_KERNELS kAvx512Kernels
#define DIT_KERNELS_NAME "AVX-512"
#include "wire/codec_loops.hpp"
