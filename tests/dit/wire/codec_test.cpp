// What each format does to numbers.
#include "wire/codec.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

#include "codec_tensors.hpp"

namespace dit {
namespace {

using namespace codec_test;

float largest(const std::vector<float>& values, std::size_t begin, std::size_t end) {
  float most = 0;
  for (std::size_t i = begin; i < std::min(end, values.size()); ++i)
    most = std::max(most, std::abs(values[i]));
  return most;
}

TEST(Codec, BytesAreKnownBeforehand) {
  const auto bytes = [](WireFormat format, std::int64_t rows, std::int64_t row) {
    return Codec(format, WireElement::fp32).encoded_bytes(rows, row);
  };
  EXPECT_EQ(bytes(WireFormat::full, 64, 16), 4096U);
  EXPECT_EQ(bytes(WireFormat::bf16, 64, 16), 2048U);
  EXPECT_EQ(bytes(WireFormat::fp8, 64, 16), 1024U + 64);
  EXPECT_EQ(bytes(WireFormat::fp8, 3, 2500), 7500U + 9);  // an exponent for each 1024 of a row
  EXPECT_EQ(bytes(WireFormat::int8, 64, 16), 1U + 32 + 1024);
  EXPECT_EQ(bytes(WireFormat::int4, 64, 16), 1U + 32 + 512);
  EXPECT_EQ(bytes(WireFormat::int2, 64, 16), 1U + 32 + 256);
  EXPECT_EQ(bytes(WireFormat::int1, 64, 16), 1U + 32 + 128);
  EXPECT_EQ(bytes(WireFormat::int4, 65, 16), 1U + 32 + 512 + 1 + 1 + 16);  // and one group more
  EXPECT_EQ(Codec(WireFormat::full, WireElement::bf16).encoded_bytes(3, 5), 30U);
  for (const WireFormat format : kFormats) EXPECT_EQ(bytes(format, 0, 16), 0U);
  EXPECT_THROW(static_cast<void>(bytes(WireFormat::int4, -1, 16)), std::length_error);
  EXPECT_THROW(static_cast<void>(bytes(WireFormat::int4, std::int64_t{1} << 40, std::int64_t{1} << 40)),
               std::length_error);
}

TEST(Codec, ErrorsStayWithinTheFormat) {
  for (const Shape shape : kShapes) {
    for (const float deviation : {1e-20F, 1.0F, 1e15F}) {
      const std::vector<float> x = normal_values(shape.elements(), 5, deviation);
      const auto row = static_cast<std::size_t>(std::max<std::int64_t>(shape.row, 1));
      std::vector<std::vector<float>> y;
      for (const WireFormat format : kFormats) y.push_back(there_and_back(format, shape, x));
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::size_t group =
            i / kWireSegment * kWireSegment + i % kWireSegment / kWireGroup * kWireGroup;
        const float most = largest(x, group, group + kWireGroup);
        const float row_most = largest(x, i / row * row, i / row * row + row);
        EXPECT_EQ(y[0][i], x[i]);
        EXPECT_LE(std::abs(y[1][i] - x[i]), std::abs(x[i]) / 256);
        EXPECT_LE(std::abs(y[2][i] - x[i]), std::max(std::abs(x[i]) / 16, std::ldexp(row_most, -17)));
        EXPECT_LE(std::abs(y[3][i] - x[i]), most / 63.75F / 2 * 1.0001F);
        EXPECT_LE(std::abs(y[4][i] - x[i]), most / 6.6F / 2 * 1.0001F);
        EXPECT_LE(std::abs(y[5][i] - x[i]), most);
        EXPECT_LE(std::abs(y[6][i]), most * 1.07F);
      }
    }
  }
}

// Of what a format leaves of normal numbers; a worse choice of scales would show here.
TEST(Codec, MeanErrorOfNormalNumbers) {
  const Shape shape{512, 128};
  const std::vector<float> x = normal_values(shape.elements(), 6);
  const auto signal_to_noise = [&](WireFormat format) {
    const std::vector<float> y = there_and_back(format, shape, x);
    double signal = 0, noise = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      signal += static_cast<double>(x[i]) * x[i];
      noise += static_cast<double>(x[i] - y[i]) * (x[i] - y[i]);
    }
    return 10 * std::log10(signal / noise);
  };
  EXPECT_GT(signal_to_noise(WireFormat::bf16), 52);
  EXPECT_GT(signal_to_noise(WireFormat::fp8), 31);
  EXPECT_GT(signal_to_noise(WireFormat::int8), 41);
  EXPECT_GT(signal_to_noise(WireFormat::int4), 20);
  EXPECT_GT(signal_to_noise(WireFormat::int2),
            9.3);  // the best 4 levels of a known normal distribution: 9.30
  EXPECT_GT(signal_to_noise(WireFormat::int1), 4.4);  // 2 levels: 4.40
}

TEST(Codec, WhatWasDecodedStays) {
  for (const Shape shape : kShapes) {
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
      for (const WireElement element : {WireElement::fp32, WireElement::bf16, WireElement::fp16}) {
        // Tensors of 16 bits have fewer digits than what some formats decode to: then once more must change
        // nothing.
        const std::vector<std::byte> x = tensor_of(normal_values(shape.elements(), seed, 3), element);
        for (const WireFormat format : kFormats) {
          if (element != WireElement::fp32 && format == WireFormat::int8) continue;
          const Codec codec(format, element);
          const auto once = decoded(codec, shape, encoded(codec, shape, x), element);
          EXPECT_EQ(decoded(codec, shape, encoded(codec, shape, once), element), once)
              << to_string(format) << " of " << shape.rows << " x " << shape.row << ", seed " << seed;
        }
      }
    }
  }
}

TEST(Codec, ZerosStayZero) {
  for (const WireFormat format : kFormats) {
    for (const float y : there_and_back(format, {40, 32}, std::vector<float>(1280, 0.0F))) EXPECT_EQ(y, 0.0F);
  }
}

TEST(Codec, ConstantRows) {
  const std::vector<float> x(1280, 0.7F);
  EXPECT_EQ(there_and_back(WireFormat::full, {40, 32}, x), x);
  for (const WireFormat format : {WireFormat::int8, WireFormat::int4, WireFormat::int2}) {
    for (const float y : there_and_back(format, {40, 32}, x))
      EXPECT_NEAR(y, 0.7, 0.7 / 12) << to_string(format);
  }
  for (const float y : there_and_back(WireFormat::int1, {40, 32}, std::vector<float>(1280, 0.75F)))
    EXPECT_EQ(y, 0.75F);
}

TEST(Codec, WhatIsBrokenShows) {
  for (const float broken : {kNan, kInfinity, -kInfinity}) {
    std::vector<float> x = normal_values(96, 1);
    x[40] = broken;
    const auto same = [&](float y) { return std::isnan(broken) ? std::isnan(y) : y == broken; };
    EXPECT_TRUE(same(there_and_back(WireFormat::full, {3, 32}, x)[40]));
    EXPECT_TRUE(same(there_and_back(WireFormat::bf16, {3, 32}, x)[40]));
    const std::vector<float> fp8 = there_and_back(WireFormat::fp8, {3, 32}, x);
    for (std::size_t i = 0; i < 96; ++i) EXPECT_EQ(std::isnan(fp8[i]), i == 40);
    for (const WireFormat format : {WireFormat::int8, WireFormat::int4, WireFormat::int2, WireFormat::int1}) {
      const std::vector<float> y = there_and_back(format, {3, 32}, x);
      for (std::size_t i = 0; i < 96; ++i) EXPECT_EQ(std::isnan(y[i]), i / 32 == 1) << to_string(format);
    }
  }
}

TEST(Codec, SmallestAndLargestNumbers) {
  constexpr float kLeast = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(there_and_back(WireFormat::bf16, {1, 2}, {1e-39F, -1e-39F})[0],
            std::bit_cast<float>((std::bit_cast<std::uint32_t>(1e-39F) + 0x8000U) & 0xffff0000U));
  const std::vector<float> tiny =
      there_and_back(WireFormat::fp8, {1, 3}, {std::ldexp(1.0F, -135), kLeast, 0.0F});
  EXPECT_EQ(tiny, (std::vector<float>{std::ldexp(1.0F, -135), 0.0F, 0.0F}));
  for (const WireFormat format : {WireFormat::int8, WireFormat::int4, WireFormat::int2, WireFormat::int1}) {
    EXPECT_EQ(there_and_back(format, {1, 2}, {kLeast, -kLeast})[0], 0.0F);
    // Two groups of one segment: the small one is lost only beyond 2^-30.
    std::vector<float> x(64, 1.0F);
    std::fill(x.begin() + 32, x.end(), std::ldexp(1.0F, -29));
    EXPECT_NEAR(there_and_back(format, {2, 32}, x)[40] * std::ldexp(1.0F, 29), 1, 0.1) << to_string(format);
    std::fill(x.begin() + 32, x.end(), std::ldexp(1.0F, -40));
    EXPECT_EQ(there_and_back(format, {2, 32}, x)[40], 0.0F);
  }
  const float most = std::numeric_limits<float>::max();
  EXPECT_EQ(there_and_back(WireFormat::fp8, {1, 1}, {most})[0], std::ldexp(1.875F, 127));
  EXPECT_EQ(there_and_back(WireFormat::bf16, {1, 1}, {most})[0], kInfinity);
}

TEST(Codec, AnyBytesDecode) {
  std::mt19937 random(9);
  for (const Shape shape : kShapes) {
    for (const WireFormat format : kFormats) {
      const Codec codec(format, WireElement::fp32);
      for (int round = 0; round < 30; ++round) {
        std::vector<std::byte> code(codec.encoded_bytes(shape.rows, shape.row));
        for (std::byte& byte : code) byte = static_cast<std::byte>(random());
        std::vector<std::uint8_t> change(shape.elements(), 78);
        std::vector<std::uint16_t> value(shape.elements(), 0x3f00);
        std::vector<std::uint8_t> digits(shape.elements());
        std::vector<std::byte> out(shape.elements() * 4);
        codec.decode(shape.rows, shape.row, code, out);
        codec.decode(shape.rows, shape.row, code, {value, digits, change, 0.5F}, true, out);
      }
    }
  }
}

TEST(Codec, RefusesOtherSizes) {
  std::vector<std::byte> tensor(4 * 64), code(64);
  std::vector<std::uint16_t> value(64);
  std::vector<std::uint8_t> digits(64);
  for (const WireFormat format : kFormats) {
    const Codec codec(format, WireElement::fp32);
    std::vector<std::byte> right(codec.encoded_bytes(2, 32));
    std::vector<std::byte> longer(right.size() + 1);
    EXPECT_THROW(codec.encode(2, 32, tensor, longer), std::length_error);
    EXPECT_THROW(codec.decode(2, 32, longer, tensor), std::length_error);
    EXPECT_THROW(codec.decode(2, 32, std::span(right).first(right.size() - 1), tensor), std::length_error);
    EXPECT_THROW(codec.encode(2, 32, std::span(tensor).first(255), right), std::length_error);
    EXPECT_THROW(codec.encode(2, 32, tensor, {std::span(value).first(63), std::span(digits).first(63), {}, 0},
                              true, right),
                 std::length_error);
  }
}

TEST(Codec, NamesOfFormats) {
  for (const WireFormat format : kFormats) EXPECT_EQ(parse_wire_format(to_string(format)), format);
  EXPECT_THROW(static_cast<void>(parse_wire_format("int3")), std::invalid_argument);
}

}  // namespace
}  // namespace dit
