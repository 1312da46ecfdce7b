/// What a GPU does in one instruction, and the same for hosts.
#pragma once

#include "wire/number_codes.hpp"

namespace dit {
namespace {

/// Bytes by number: 0 to 3 are `low`'s, 4 to 7 `high`'s; the lowest digit of `choice` names the lowest byte.
DIT_SHARED std::uint32_t bytes_from(std::uint32_t low, std::uint32_t high, std::uint32_t choice) {
#ifdef __CUDA_ARCH__
  return __byte_perm(low, high, choice);
#else
  const std::uint64_t both = static_cast<std::uint64_t>(high) << 32U | low;
  std::uint32_t chosen = 0;
  for (std::uint32_t i = 0; i < 4; ++i) {
    chosen |= static_cast<std::uint32_t>(both >> (8 * (choice >> (4 * i) & 7U)) & 0xffU) << (8 * i);
  }
  return chosen;
#endif
}

/// Four bytes from byte `first` of `low` on, 1 to 3, the rest of them `high`'s.
DIT_SHARED std::uint32_t bytes_of_two(std::uint32_t low, std::uint32_t high, std::uint32_t first) {
#ifdef __CUDA_ARCH__
  return __funnelshift_r(low, high, 8 * first);
#else
  return low >> (8 * first) | high << (32 - 8 * first);
#endif
}

/// `high` moved up by `bytes`, 0 to 3, with the last bytes of `low` before it.
DIT_SHARED std::uint32_t moved_up(std::uint32_t low, std::uint32_t high, std::uint32_t bytes) {
#ifdef __CUDA_ARCH__
  return __funnelshift_l(low, high, 8 * bytes);
#else
  return bytes == 0 ? high : high << (8 * bytes) | low >> (32 - 8 * bytes);
#endif
}

/// `word` moved up by `bits`, with the highest bits of `next` behind it.
DIT_SHARED std::uint32_t followed_by(std::uint32_t word, std::uint32_t next, std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __funnelshift_l(next, word, bits);
#else
  return word << bits | next >> (32 - bits);
#endif
}

/// The larger magnitude, as bits; beyond infinity when one is a NaN.
DIT_SHARED std::uint32_t larger_magnitude(std::uint32_t magnitude, float x) {
#ifdef __CUDA_ARCH__
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(__uint_as_float(magnitude)), "f"(fabsf(x)));
  return __float_as_uint(larger);
#else
  const std::uint32_t other = bits_of(x) & kMagnitude;
  return other > magnitude ? other : magnitude;
#endif
}

/// From 0 to 1, with 0 for what is below.
DIT_SHARED float within_one(float x) {
#ifdef __CUDA_ARCH__
  return __saturatef(x);
#else
  return x > 0.0F ? (x < 1.0F ? x : 1.0F) : 0.0F;
#endif
}

DIT_SHARED float magnitude_of(float x) {
  return float_of(bits_of(x) & kMagnitude);
}

/// Whether all are finite.
template <std::uint32_t count>
DIT_SHARED bool are_finite(const float* x) {
  float products[2] = {0.0F, 0.0F};
  DIT_UNROLL
  for (std::uint32_t i = 0; i < count; ++i) {
#ifdef __CUDA_ARCH__
    products[i % 2] = __fmaf_rn(x[i], 0.0F, products[i % 2]);
#else
    products[i % 2] += x[i] * 0.0F;
#endif
  }
  return products[0] == 0.0F && products[1] == 0.0F;
}

// ---- Two numbers at once, of finite ones.

DIT_SHARED std::uint32_t two_bf16(float low, float high) {
#ifdef __CUDA_ARCH__
  std::uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
#else
  return narrowed(low) | static_cast<std::uint32_t>(narrowed(high)) << 16U;
#endif
}

DIT_SHARED std::uint32_t two_fp16(float low, float high) {
#ifdef __CUDA_ARCH__
  constexpr float kMost = 65504.0F;  // what rounds beyond becomes it
  std::uint32_t both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;"
      : "=r"(both)
      : "f"(fminf(fmaxf(high, -kMost), kMost)), "f"(fminf(fmaxf(low, -kMost), kMost)));
  return both;
#else
  return narrowed_fp16(low) | static_cast<std::uint32_t>(narrowed_fp16(high)) << 16U;
#endif
}

DIT_SHARED void from_two_fp16(std::uint32_t both, float& low, float& high) {
#ifdef __CUDA_ARCH__
  asm("{.reg .f16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b;}"
      : "=f"(low), "=f"(high)
      : "r"(both));
#else
  low = widened_fp16(static_cast<std::uint16_t>(both));
  high = widened_fp16(static_cast<std::uint16_t>(both >> 16U));
#endif
}

/// fp8's codes of four numbers of at most its largest magnitude, and back. No NaNs.
DIT_SHARED std::uint32_t four_fp8(float a, float b, float c, float d) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  std::uint16_t low;
  std::uint16_t high;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(b), "f"(a));
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(d), "f"(c));
  return low | static_cast<std::uint32_t>(high) << 16U;
#else
  const auto code = [](float x) { return fp8_magnitude(magnitude_of(x)) | (bits_of(x) >> 24U & 0x80U); };
  return code(a) | code(b) << 8U | code(c) << 16U | code(d) << 24U;
#endif
}
DIT_SHARED void from_four_fp8(std::uint32_t codes, float* x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  DIT_UNROLL
  for (std::uint32_t half = 0; half < 2; ++half) {
    std::uint32_t both;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(both) : "h"(static_cast<std::uint16_t>(codes >> (16 * half))));
    from_two_fp16(both, x[2 * half], x[2 * half + 1]);
  }
#else
  DIT_UNROLL
  for (std::uint32_t i = 0; i < 4; ++i) {
    x[i] = fp8_value(codes >> (8 * i) & 0xffU, 1.0F);
  }
#endif
}

// ---- Pairs of numbers in a word, the first one in its lower half.

/// In each half what of() makes of the halves; of hosts.
template <class Of>
DIT_SHARED std::uint32_t of_halves(std::uint32_t a, std::uint32_t b, const Of& of) {
  return static_cast<std::uint32_t>(of(a & 0xffffU, b & 0xffffU)) |
         static_cast<std::uint32_t>(of(a >> 16U, b >> 16U)) << 16U;
}

/// a * b + c of bf16 numbers, rounded once; of hosts only where that needs no more bits than fp32 has.
DIT_SHARED std::uint32_t fused_bf16(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
#ifdef __CUDA_ARCH__
  std::uint32_t both;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(both) : "r"(a), "r"(b), "r"(c));
  return both;
#else
  const auto one = [](std::uint32_t x, std::uint32_t y, std::uint32_t z) {
    return static_cast<std::uint32_t>(narrowed(float_of(x << 16U) * float_of(y << 16U) + float_of(z << 16U)));
  };
  return one(a & 0xffffU, b & 0xffffU, c & 0xffffU) | one(a >> 16U, b >> 16U, c >> 16U) << 16U;
#endif
}

/// The larger magnitudes of bf16 numbers, with any signs; a NaN where one is.
DIT_SHARED std::uint32_t larger_magnitudes(std::uint32_t a, std::uint32_t b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 860
  std::uint32_t both;
  asm("max.NaN.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(both) : "r"(a), "r"(b));
  return both;
#elif defined(__CUDA_ARCH__)
  return __vmaxu2(a & 0x7fff7fffU, b & 0x7fff7fffU);
#else
  return of_halves(a & 0x7fff7fffU, b & 0x7fff7fffU,
                   [](std::uint32_t x, std::uint32_t y) { return x > y ? x : y; });
#endif
}

/// What of whole numbers below 1024 is more than others; 0 where it is less. `less`: these with their
/// highest bits set. To a GPU they are fp16's smallest numbers.
DIT_SHARED std::uint32_t excess(std::uint32_t a, std::uint32_t less) {
#ifdef __CUDA_ARCH__
  std::uint32_t both;
  asm("add.sat.f16x2 %0, %1, %2;" : "=r"(both) : "r"(a), "r"(less));
  return both;
#else
  return of_halves(a, less & 0x7fff7fffU,
                   [](std::uint32_t x, std::uint32_t y) { return x > y ? x - y : 0U; });
#endif
}

/// a * b + c, rounded once.
DIT_SHARED float fused(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

}  // namespace
}  // namespace dit
