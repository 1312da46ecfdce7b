// The bits of codes: alike on all processors, whatever numbers are coded.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "codec_tensors.hpp"
#include "wire/codec.hpp"

namespace dit {
namespace {

using namespace codec_test;

/// What the bits of an fp16 mean.
double value_of_fp16(std::uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10U & 31U);
  const double mantissa = bits & 0x3ffU;
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  if (exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
  return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25));
}

TEST(Codec, EveryFp16IsReadAndWrittenBack) {
  for (const CodecKernels* kernels : codec_kernels()) {
    for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
      const auto half = static_cast<std::uint16_t>(bits);
      float value = 0;
      std::uint16_t back = 0;
      kernels->widen_fp16(&half, 1, &value);
      kernels->narrow_fp16(&value, 1, &back);
      const double expected = value_of_fp16(bits);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(value)) << bits;
        EXPECT_EQ(back & 0x7e00, 0x7e00) << bits;
      } else {
        EXPECT_EQ(static_cast<double>(value), expected) << bits;
        EXPECT_EQ(back, half) << bits;
      }
    }
  }
}

TEST(Codec, Fp16RoundsToNearestHalvesToEven) {
  for (const CodecKernels* kernels : codec_kernels()) {
    for (std::uint32_t bits = 0; bits < 0x7bffU; ++bits) {  // each number and the next one
      const double low = value_of_fp16(bits);
      const double high = value_of_fp16(bits + 1);
      const auto middle = static_cast<float>((low + high) / 2);
      const float values[] = {std::nextafter(middle, 0.0F), middle, std::nextafter(middle, 1e9F), -middle};
      std::uint16_t codes[4];
      kernels->narrow_fp16(values, 4, codes);
      const auto even = static_cast<std::uint16_t>(bits + (bits & 1U));
      EXPECT_EQ(codes[0], bits);
      EXPECT_EQ(codes[1], even);
      EXPECT_EQ(codes[2], bits + 1);
      EXPECT_EQ(codes[3], even | 0x8000U);
    }
    const float beyond[] = {65519.9F, 65520.0F, 1e30F, -INFINITY};
    std::uint16_t codes[4];
    kernels->narrow_fp16(beyond, 4, codes);
    EXPECT_EQ(codes[0], 0x7bff);
    EXPECT_EQ(codes[1], 0x7bff) << "what a codec rounds up does not overflow";
    EXPECT_EQ(codes[2], 0x7bff);
    EXPECT_EQ(codes[3], 0xfc00);
  }
}

TEST(Codec, AllProcessorsWriteTheSameBytes) {
  for (const Shape shape : kShapes) {
    for (std::uint32_t seed = 0; seed < 10; ++seed) {
      const std::vector<float> values =
          seed % 2 == 0 ? wild_values(shape.elements(), seed) : normal_values(shape.elements(), seed, 0.3F);
      for (const WireElement element : {WireElement::fp32, WireElement::bf16, WireElement::fp16}) {
        const std::vector<std::byte> x = tensor_of(values, element);
        for (const WireFormat format : kFormats) {
          const Codec plain(format, element, kPortableKernels);
          const auto code = encoded(plain, shape, x);
          const auto y = decoded(plain, shape, code, element);
          for (const CodecKernels* kernels : codec_kernels()) {
            const Codec codec(format, element, *kernels);
            EXPECT_EQ(encoded(codec, shape, x), code) << to_string(format) << " " << kernels->name;
            EXPECT_EQ(decoded(codec, shape, code, element), y) << to_string(format) << " " << kernels->name;
          }
        }
      }
    }
  }
}

// FNV-1a, of 8 bytes at a time.
class Digest {
 public:
  template <typename Byte>
  void add(const std::vector<Byte>& data) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(data));
    for (std::size_t at = 0; at < bytes.size(); at += 8) {
      std::uint64_t word = bytes.size();
      std::memcpy(&word, bytes.data() + at, std::min<std::size_t>(8, bytes.size() - at));
      state_ = (state_ ^ word) * 0x100000001b3U;
    }
  }
  [[nodiscard]] std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325U;
};

// The codes of a format and what they become, of all bits that numbers have; with references that were
// replaced and moved.
std::uint64_t digest_of(WireFormat format, const CodecKernels& kernels) {
  Digest digest;
  for (const Shape shape : kShapes) {
    for (const WireElement element : {WireElement::fp32, WireElement::bf16, WireElement::fp16}) {
      const Codec codec(format, element, kernels);
      std::vector<std::uint16_t> value(shape.elements());
      std::vector<std::uint8_t> digits(shape.elements()), change(shape.elements());
      for (std::uint32_t seed = 0; seed < 4; ++seed) {
        const std::vector<std::byte> x = tensor_of(wild_values(shape.elements(), seed), element);
        const auto code = encoded(codec, shape, x);
        digest.add(code);
        digest.add(decoded(codec, shape, code, element));
        std::vector<std::byte> residual(code.size()), came(x.size());
        codec.encode(shape.rows, shape.row, x, {value, digits, change, 0.75F}, seed > 0, residual, came);
        digest.add(residual);
        digest.add(came);
        digest.add(value);
        digest.add(digits);
        digest.add(change);
      }
    }
  }
  return digest.value();
}

// Ranks of one job may run on machines of different kinds.
TEST(Codec, AllMachinesWriteTheBytesThatWereWrittenDown) {
  constexpr std::uint64_t kWritten[] = {0x0dd48cd77bf7cb8cU, 0x837b989ccc939df8U, 0x8cc3ffe8b23c6ae6U,
                                        0x30ddaf75046a4f70U, 0x98d4208fa4b86d3cU, 0x039f3d7fe485da89U,
                                        0x80c9c7309c95ad9fU};
  for (const CodecKernels* kernels : codec_kernels()) {
    for (std::size_t i = 0; i < std::size(kFormats); ++i) {
      const std::uint64_t found = digest_of(kFormats[i], *kernels);
      EXPECT_EQ(found, kWritten[i]) << to_string(kFormats[i]) << " " << kernels->name << std::hex << ": 0x"
                                    << found;
    }
  }
}

}  // namespace
}  // namespace dit
