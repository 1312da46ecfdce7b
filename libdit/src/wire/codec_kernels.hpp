/// The inner loops of the wire codecs, compiled once for each instruction set from one source
/// (codec_loops.hpp). All give the same bits: no sum is reordered, no product is fused with a sum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/wire_formats.hpp"

namespace dit {

/// Formats of groups, as indices into the tables of functions below.
enum class GroupFormat : std::uint8_t { int8, int4, int2, int1 };
inline constexpr std::size_t kGroupFormats = 4;

/// A part of a WireReference (codec.hpp).
struct ReferenceParts {
  std::uint16_t* value;
  std::uint8_t* digits;
  std::uint8_t* change;  ///< null: no momentum
  [[nodiscard]] ReferenceParts from(std::size_t at) const {
    return {value + at, digits + at, change != nullptr ? change + at : nullptr};
  }
};

struct CodecKernels {
  const char* name;
  void (*widen)(const std::uint16_t* bf16, std::size_t count, float* values);
  void (*narrow)(const float* values, std::size_t count, std::uint16_t* bf16);
  void (*widen_fp16)(const std::uint16_t* fp16, std::size_t count, float* values);
  /// To nearest; finite values stay finite.
  void (*narrow_fp16)(const float* values, std::size_t count, std::uint16_t* fp16);
  /// One segment, at most kWireSegment values. `values` has room for whole groups; what is beyond `count` is
  /// zero.
  void (*encode[kGroupFormats])(const float* values, std::size_t count, std::uint8_t* code);
  /// Writes whole groups.
  void (*decode[kGroupFormats])(const std::uint8_t* code, std::size_t count, float* values);
  /// Of each row: its exponent, then a byte for each element.
  void (*encode_fp8)(const float* values, std::size_t rows, std::size_t row, std::uint8_t* code);
  void (*decode_fp8)(const std::uint8_t* code, std::size_t rows, std::size_t row, float* values);
  /// Of at most kWireSegment values, as the next one: residual = values - prediction; prediction = reference
  /// + momentum * change, or the reference alone.
  void (*residual)(const float* values, const ReferenceParts& reference, float momentum, std::size_t count,
                   float* residual);
  /// values = prediction + residual (null: nothing is added), and replace(values). They may be the same
  /// array.
  void (*advance)(const float* residual, float momentum, std::size_t count, const ReferenceParts& reference,
                  float* values);
  /// reference = values; change = what the reference moved by. Where values are not finite the reference
  /// stays and does not move.
  void (*replace)(const float* values, std::size_t count, const ReferenceParts& reference);
  /// The reference itself.
  void (*recall)(const ReferenceParts& reference, std::size_t count, float* values);
  /// The square of the distance between values and prediction, summed in a fixed order.
  float (*distance)(const float* values, const ReferenceParts& reference, float momentum, std::size_t count);
};

/// Those that this processor runs, the plain one first, the fastest last.
[[nodiscard]] std::span<const CodecKernels* const> codec_kernels();
[[nodiscard]] const CodecKernels& fastest_codec_kernels();

extern const CodecKernels kPortableKernels;
extern const CodecKernels kAvx2Kernels;
extern const CodecKernels kAvx512Kernels;
extern const CodecKernels kNeonKernels;

}  // namespace dit
