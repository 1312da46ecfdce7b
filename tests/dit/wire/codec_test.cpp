#include "wire/codec.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace dit {
namespace {

constexpr WireFormat kFormats[] = {WireFormat::full, WireFormat::bf16, WireFormat::fp8, WireFormat::int8,
                                   WireFormat::int4, WireFormat::int2, WireFormat::int1};
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Shape {
  std::int64_t rows, row;
  [[nodiscard]] std::size_t elements() const { return static_cast<std::size_t>(rows * row); }
};
// Parts of groups, of segments, of rows; long rows; nothing.
constexpr Shape kShapes[] = {{1, 1},  {3, 16},   {85, 32},  {7, 33},  {2, 1024}, {3, 1500},
                             {1, 31}, {64, 128}, {341, 16}, {5, 205}, {0, 16},   {4, 0}};

std::vector<std::byte> tensor_of(const std::vector<float>& values, WireElement element) {
  std::vector<std::byte> bytes(values.size() * bytes_of(element));
  if (values.empty()) return bytes;
  if (element == WireElement::fp32) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  std::vector<std::uint16_t> halves(values.size());
  (element == WireElement::bf16 ? kPortableKernels.narrow : kPortableKernels.narrow_fp16)(
      values.data(), values.size(), halves.data());
  std::memcpy(bytes.data(), halves.data(), bytes.size());
  return bytes;
}

std::vector<float> floats_of(const std::vector<std::byte>& tensor, WireElement element) {
  std::vector<float> values(tensor.size() / bytes_of(element));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (element == WireElement::fp32) {
      std::memcpy(&values[i], tensor.data() + 4 * i, 4);
    } else {
      std::uint16_t half = 0;
      std::memcpy(&half, tensor.data() + 2 * i, 2);
      (element == WireElement::bf16 ? kPortableKernels.widen : kPortableKernels.widen_fp16)(&half, 1,
                                                                                            &values[i]);
    }
  }
  return values;
}

std::vector<float> normal_values(std::size_t count, std::uint32_t seed, float deviation = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Bits of all kinds: NaNs, infinities, denormals and zeros among numbers of all sizes.
std::vector<float> wild_values(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = static_cast<std::uint32_t>(random());
    const std::uint32_t kind = random() % 64;
    values[i] = std::bit_cast<float>(bits);
    if (kind < 40) values[i] = static_cast<float>(static_cast<int>(bits % 2001) - 1000) / 300;
    if (kind == 40) values[i] = (bits & 1U) != 0 ? kInfinity : -kInfinity;
    if (kind == 41) values[i] = kNan;
    if (kind == 42) values[i] = std::bit_cast<float>(bits & 0x807fffffU);  // denormal
    if (kind == 43) values[i] = (bits & 1U) != 0 ? 0.0F : -0.0F;
  }
  return values;
}

std::vector<std::byte> encoded(const Codec& codec, Shape shape, const std::vector<std::byte>& tensor) {
  std::vector<std::byte> code(codec.encoded_bytes(shape.rows, shape.row));
  codec.encode(shape.rows, shape.row, tensor, code);
  return code;
}

std::vector<std::byte> decoded(const Codec& codec, Shape shape, const std::vector<std::byte>& code,
                               WireElement element) {
  std::vector<std::byte> tensor(shape.elements() * bytes_of(element));
  codec.decode(shape.rows, shape.row, code, tensor);
  return tensor;
}

std::vector<float> there_and_back(WireFormat format, Shape shape, const std::vector<float>& values) {
  const Codec codec(format, WireElement::fp32);
  return floats_of(
      decoded(codec, shape, encoded(codec, shape, tensor_of(values, WireElement::fp32)), WireElement::fp32),
      WireElement::fp32);
}

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

// ---- References

struct End {
  End(std::size_t numbers, float how_far)
      : value(numbers), digits(numbers), change(how_far > 0 ? numbers : 0), momentum(how_far) {}
  std::vector<std::uint16_t> value;
  std::vector<std::uint8_t> digits, change;
  float momentum;
  [[nodiscard]] WireReference reference() { return {value, digits, change, momentum}; }
};

// Both ends of one stream.
struct Stream {
  Stream(Shape of, WireFormat how, float momentum)
      : shape(of),
        codec(how, WireElement::fp32),
        sender(of.elements(), momentum),
        receiver(of.elements(), momentum) {}
  std::vector<float> send(const std::vector<float>& x, bool residual) {
    std::vector<std::byte> code(codec.encoded_bytes(shape.rows, shape.row)), came(x.size() * 4), out(came);
    codec.encode(shape.rows, shape.row, tensor_of(x, WireElement::fp32), sender.reference(), residual, code,
                 came);
    codec.decode(shape.rows, shape.row, code, receiver.reference(), residual, out);
    EXPECT_EQ(came, out);
    EXPECT_EQ(sender.value, receiver.value);
    EXPECT_EQ(sender.digits, receiver.digits);
    EXPECT_EQ(sender.change, receiver.change);
    return floats_of(out, WireElement::fp32);
  }
  Shape shape;
  Codec codec;
  End sender, receiver;
};

TEST(Reference, BothEndsAgreeAfterAnySteps) {
  std::mt19937 random(11);
  for (const Shape shape : kShapes) {
    for (const float momentum : {0.0F, 0.75F}) {
      for (const WireElement element : {WireElement::fp32, WireElement::bf16, WireElement::fp16}) {
        End sender(shape.elements(), momentum);
        End receiver = sender;
        std::vector<float> x = normal_values(shape.elements(), 1);
        for (int step = 0; step < 30; ++step) {
          const std::vector<float> moved =
              normal_values(shape.elements(), static_cast<std::uint32_t>(step), 0.1F);
          for (std::size_t i = 0; i < x.size(); ++i) x[i] += moved[i];
          const CodecKernels& here = *codec_kernels()[random() % codec_kernels().size()];
          const CodecKernels& there = *codec_kernels()[random() % codec_kernels().size()];
          std::vector<std::byte> out(shape.elements() * bytes_of(element)), came(out.size());
          if (random() % 8 == 0) {
            extrapolate(sender.reference(), element, came, here);
            extrapolate(receiver.reference(), element, out, there);
          } else {
            const WireFormat format = kFormats[random() % std::size(kFormats)];
            const bool residual = random() % 2 == 0;
            const Codec write(format, element, here);
            std::vector<std::byte> code(write.encoded_bytes(shape.rows, shape.row));
            write.encode(shape.rows, shape.row, tensor_of(x, element), sender.reference(), residual, code,
                         came);
            Codec(format, element, there)
                .decode(shape.rows, shape.row, code, receiver.reference(), residual, out);
          }
          ASSERT_EQ(sender.value, receiver.value);
          ASSERT_EQ(sender.digits, receiver.digits);
          ASSERT_EQ(sender.change, receiver.change);
          ASSERT_EQ(out, came);
        }
      }
    }
  }
}

// What a step leaves out the next ones bring.
TEST(Reference, FeedbackBringsWhatIsMissing) {
  const Shape shape{16, 32};
  const std::vector<float> x = normal_values(shape.elements(), 3);
  for (const WireFormat format : {WireFormat::int8, WireFormat::int4, WireFormat::int2, WireFormat::int1}) {
    Stream stream(shape, format, 0);
    std::vector<float> came;
    for (int step = 0; step < 100; ++step) came = stream.send(x, true);
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(came[i], x[i], 0.02) << to_string(format);
  }
}

// With momentum 1 what moves evenly is foreseen.
TEST(Reference, MomentumForesees) {
  End end(64, 1);
  const Codec full(WireFormat::full, WireElement::fp32);
  for (const float now : {1.0F, 3.0F}) {
    std::vector<std::byte> code(256);
    full.encode(2, 32, tensor_of(std::vector<float>(64, now), WireElement::fp32), end.reference(), false,
                code);
  }
  std::vector<std::byte> out(256);
  extrapolate(end.reference(), WireElement::fp32, out);
  EXPECT_EQ(floats_of(out, WireElement::fp32), std::vector<float>(64, 5.0F));
}

// What is remembered is rounded, what arrives is not: it is as near as the residual's format brings it.
TEST(Reference, RoundingIsNotSeen) {
  const Shape shape{32, 64};
  const std::vector<float> x = normal_values(shape.elements(), 3);
  Stream stream(shape, WireFormat::int8, 0.5F);
  std::vector<float> came;
  for (int step = 0; step < 20; ++step) came = stream.send(x, true);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(came[i], x[i], 1e-6);
}

// A byte for what moved: from 2^-39 to 2^23 within a quarter, signs and zeros as they are.
TEST(Reference, ChangesInAByte) {
  for (int power = -38; power < 23; ++power) {
    for (const float part : {1.0F, 1.2F, -1.3F, 1.49F, -1.7F, 1.99F}) {
      const float change = std::ldexp(part, power);
      End end(32, 1);
      const Codec full(WireFormat::full, WireElement::fp32);
      std::vector<std::byte> code(128), out(128);
      for (const float times : {1.0F, 2.0F}) {  // from nothing to the first one is no movement
        const std::vector<float> values(32, times * change);
        full.encode(1, 32, tensor_of(values, WireElement::fp32), end.reference(), false, code);
        EXPECT_EQ(end.change[0] == 0, times == 1.0F);
      }
      extrapolate(end.reference(), WireElement::fp32, out);
      for (const float next : floats_of(out, WireElement::fp32)) {
        EXPECT_NEAR(next / change, 3, 0.26) << change;
      }
    }
  }
  End end(1, 1);
  for (const float value : {1e-10F, 1e-10F, 1.001e-10F}) {  // the last one: too little
    kPortableKernels.replace(&value, 1, parts_of(end.reference()));
    EXPECT_EQ(end.change[0] & 0x7f, 0);
  }
}

// What is not finite shows in its step, and the next one is as if it had never been.
TEST(Reference, RecoversFromWhatIsNotFinite) {
  const Shape shape{3, 32};
  for (const float broken : {kNan, kInfinity, -kInfinity}) {
    for (const WireFormat format : kFormats) {
      for (const bool residual : {false, true}) {
        for (const float momentum : {0.0F, 0.75F}) {
          SCOPED_TRACE(std::string(to_string(format)) + (residual ? " residual of " : " of ") +
                       std::to_string(broken));
          Stream stream(shape, format, momentum);
          std::vector<float> x = normal_values(96, 1);
          for (int step = 0; step < 40; ++step) stream.send(x, residual);
          const std::vector<float> before = stream.send(x, residual);
          const float sound = std::exchange(x[40], broken);
          for (int step = 0; step < 2; ++step) {
            EXPECT_FALSE(std::isfinite(stream.send(x, residual)[40]));
          }
          x[40] = sound;
          stream.send(x, residual);
          const std::vector<float> after = stream.send(x, residual);
          for (std::size_t i = 0; i < 96; ++i) EXPECT_NEAR(after[i], before[i], 0.3) << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace dit
