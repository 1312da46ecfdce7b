/// Numbers of tensors, in fp32 and rounded to their elements, with equal bits on host and device.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define DIT_HOST_DEVICE __host__ __device__
#else
#define DIT_HOST_DEVICE
#endif

namespace dit {

inline constexpr int kGroup = 4;  ///< numbers that are read and written together

struct Bf16 {
  std::uint16_t bits;
};
struct Fp16 {
  std::uint16_t bits;
};

/// Conversions round to nearest, ties to even; what is not a number becomes 0x7fff (fp32: 0x7fffffff).

DIT_HOST_DEVICE inline std::uint32_t bits_of(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
DIT_HOST_DEVICE inline float float_of(std::uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

DIT_HOST_DEVICE inline float to_float(float value) {
  return value;
}
DIT_HOST_DEVICE inline float to_float(Bf16 value) {
  return float_of(static_cast<std::uint32_t>(value.bits) << 16);
}
DIT_HOST_DEVICE inline float to_float(Fp16 value) {
#ifdef __CUDA_ARCH__
  return __half2float(__ushort_as_half(value.bits));
#else
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000U) << 16;
  const std::uint32_t exponent = value.bits >> 10 & 0x1fU;
  const std::uint32_t fraction = value.bits & 0x3ffU;
  if (exponent == 0x1f) return float_of(sign | 0x7f800000U | fraction << 13);
  if (exponent != 0) return float_of(sign | (exponent + 112) << 23 | fraction << 13);
  const float small = static_cast<float>(fraction) * 5.9604644775390625e-8F;  // 2^-24, exact
  return sign != 0 ? -small : small;
#endif
}

template <class Element>
struct Rounded;
template <>
struct Rounded<float> {
  DIT_HOST_DEVICE static float of(float value) {
    return (bits_of(value) & 0x7fffffffU) > 0x7f800000U ? float_of(0x7fffffffU) : value;
  }
};
template <>
struct Rounded<Bf16> {
  DIT_HOST_DEVICE static Bf16 of(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800  // one instruction
    return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
#else
    const std::uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffffU) > 0x7f800000U) return {0x7fff};
    return {static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16)};
#endif
  }
};
template <>
struct Rounded<Fp16> {
  DIT_HOST_DEVICE static Fp16 of(float value) {
#ifdef __CUDA_ARCH__
    return {__half_as_ushort(__float2half_rn(value))};
#else
    const std::uint32_t bits = bits_of(value);
    const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000U);
    const std::uint32_t size = bits & 0x7fffffffU;
    if (size > 0x7f800000U) return {0x7fff};
    if (size >= 0x477ff000U) return {static_cast<std::uint16_t>(sign | 0x7c00U)};  // 65520 and above
    if (size < 0x38800000U) {  // below 2^-14: the addition rounds to multiples of 2^-24
      const float shifted = float_of(size) + 0.5F;
      return {static_cast<std::uint16_t>(sign | (bits_of(shifted) - 0x3f000000U))};
    }
    const std::uint32_t rounded = size + 0xfffU + (size >> 13 & 1U);
    return {static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13))};
#endif
  }
};

DIT_HOST_DEVICE inline float product(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
DIT_HOST_DEVICE inline float sum(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}
DIT_HOST_DEVICE inline float scale_of_mean(float mean, float epsilon) {
#ifdef __CUDA_ARCH__
  return __frcp_rn(__fsqrt_rn(__fadd_rn(mean, epsilon)));
#else
  return 1.0F / std::sqrt(mean + epsilon);
#endif
}
/// Where count is a power of two, the product with 1 / count has the quotient's bits.
DIT_HOST_DEVICE inline float scale_of(float squares, int count, float epsilon) {
#ifdef __CUDA_ARCH__
  return scale_of_mean(__fdiv_rn(squares, static_cast<float>(count)), epsilon);
#else
  return scale_of_mean(squares / static_cast<float>(count), epsilon);
#endif
}

/// Four numbers of a row, with as many as there are; in one access where `wide`.
struct Four {
  float at[kGroup];
};
template <class Element, bool wide>
DIT_HOST_DEVICE inline Four load_four(const Element* from, int count) {
  struct alignas(sizeof(Element) * kGroup) Wide {
    Element at[kGroup];
  };
  Four four{};
  if constexpr (wide) {
    const Wide all = *reinterpret_cast<const Wide*>(from);
    for (int i = 0; i < kGroup; ++i) four.at[i] = to_float(all.at[i]);
  } else {
    for (int i = 0; i < kGroup; ++i)
      if (i < count) four.at[i] = to_float(from[i]);
  }
  return four;
}
template <class Element, bool wide>
DIT_HOST_DEVICE inline void store_four(Element* to, const Four& four, int count) {
  struct alignas(sizeof(Element) * kGroup) Wide {
    Element at[kGroup];
  };
  if constexpr (wide) {
    Wide all;
    for (int i = 0; i < kGroup; ++i) all.at[i] = Rounded<Element>::of(four.at[i]);
    *reinterpret_cast<Wide*>(to) = all;
  } else {
    for (int i = 0; i < kGroup; ++i)
      if (i < count) to[i] = Rounded<Element>::of(four.at[i]);
  }
}

}  // namespace dit
