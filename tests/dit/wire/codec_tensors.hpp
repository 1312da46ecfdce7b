/// @file
/// Tensors for tests of codecs, and what comes of them when they are encoded and decoded.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "wire/codec.hpp"

namespace dit::codec_test {

inline constexpr WireFormat kFormats[] = {WireFormat::full, WireFormat::bf16, WireFormat::fp8,
                                          WireFormat::int8, WireFormat::int4, WireFormat::int2,
                                          WireFormat::int1};
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Shape {
  std::int64_t rows, row;
  [[nodiscard]] std::size_t elements() const { return static_cast<std::size_t>(rows * row); }
};
/// Parts of groups, of segments, of rows; long rows; nothing.
inline constexpr Shape kShapes[] = {{1, 1},  {3, 16},   {85, 32},  {7, 33},  {2, 1024}, {3, 1500},
                                    {1, 31}, {64, 128}, {341, 16}, {5, 205}, {0, 16},   {4, 0}};

inline std::vector<std::byte> tensor_of(const std::vector<float>& values, WireElement element) {
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

inline std::vector<float> floats_of(const std::vector<std::byte>& tensor, WireElement element) {
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

inline std::vector<float> normal_values(std::size_t count, std::uint32_t seed, float deviation = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

/// Bits of all kinds: NaNs, infinities, denormals and zeros among numbers of all sizes.
inline std::vector<float> wild_values(std::size_t count, std::uint32_t seed) {
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

inline std::vector<std::byte> encoded(const Codec& codec, Shape shape, const std::vector<std::byte>& tensor) {
  std::vector<std::byte> code(codec.encoded_bytes(shape.rows, shape.row));
  codec.encode(shape.rows, shape.row, tensor, code);
  return code;
}

inline std::vector<std::byte> decoded(const Codec& codec, Shape shape, const std::vector<std::byte>& code,
                                      WireElement element) {
  std::vector<std::byte> tensor(shape.elements() * bytes_of(element));
  codec.decode(shape.rows, shape.row, code, tensor);
  return tensor;
}

inline std::vector<float> there_and_back(WireFormat format, Shape shape, const std::vector<float>& values) {
  const Codec codec(format, WireElement::fp32);
  return floats_of(
      decoded(codec, shape, encoded(codec, shape, tensor_of(values, WireElement::fp32)), WireElement::fp32),
      WireElement::fp32);
}

}  // namespace dit::codec_test
