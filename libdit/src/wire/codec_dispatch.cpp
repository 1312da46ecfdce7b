#include <array>

#include "wire/codec_kernels.hpp"

namespace dit {
namespace {

#if defined(__x86_64__)
std::size_t runnable() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") == 0) {
    return 1;
  }
  const bool avx512 = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  return avx512 ? 3 : 2;
}
#endif

}  // namespace

std::span<const CodecKernels* const> codec_kernels() {
#if defined(__x86_64__)
  static constexpr std::array<const CodecKernels*, 3> kAll = {&kPortableKernels, &kAvx2Kernels,
                                                              &kAvx512Kernels};
  static const std::size_t count = runnable();
  return std::span(kAll).first(count);
#elif defined(__aarch64__)
  static constexpr std::array<const CodecKernels*, 2> kAll = {&kPortableKernels, &kNeonKernels};
  return kAll;
#else
  static constexpr std::array<const CodecKernels*, 1> kAll = {&kPortableKernels};
  return kAll;
#endif
}

const CodecKernels& fastest_codec_kernels() {
  return *codec_kernels().back();
}

}  // namespace dit
