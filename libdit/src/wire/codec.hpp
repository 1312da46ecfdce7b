/// How numbers are written on a slow link: in fewer bits. Pure, host memory, no MPI. All processors write and
/// read the same bytes (codec_kernels.hpp), so that sender and receiver may differ.
///
/// | format | bits of a number | largest error |
/// |---|---|---|
/// | full | the element's own | none |
/// | bf16 | 16 | 2^-8 of the number |
/// | fp8  | 8, and 8 for each row (of longer ones: each 1024) | e4m3: 2^-4 of the number, or 2^-18 of the
/// row's largest | | int8 | 8.26 | 1/2 of 1/63.75 of the group's largest magnitude | | int4 | 4.26 | 1/2 of
/// 1/6.6 of it | | int2 | 2.26 | the group's largest magnitude; mean square as small as 4 levels make it,
/// almost | | int1 | 1.26 | signs times the group's mean magnitude |
///
/// Groups are 32 numbers that follow each other in a block, across rows; the last one of a block is filled up
/// with zeros. 32 groups share an exponent of 8 bits; a group's scale is 8 bits, down to 2^-30 of the
/// greatest of the 32.
///
/// Ranges: zeros, and rows and groups of zeros, stay zeros in all formats (int2 and int1 have no zero: a
/// zero beside other numbers becomes the smallest level, with int1 +mean). Constant groups come back exactly
/// from int1, and else within the error above. NaN: stays NaN in full, bf16 (quiet) and fp8; in the other
/// formats its whole group becomes NaN, so that what is broken shows. Infinity: stays in full and bf16,
/// becomes NaN in fp8, and makes its whole group NaN in the others. Denormals: stay in full and bf16; fp8
/// makes them multiples of 2^-135; in the others a group becomes zero when its scale is below 2^-126 or below
/// 2^-30 of the greatest of its 32 groups. Magnitudes above 1.8 * 2^127: fp8 makes them 1.875 * 2^127, and
/// the others may make them infinite. fp16: what a code makes larger than its largest
/// number becomes that one. What was decoded encodes to what decodes to the same numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "wire/codec_kernels.hpp"

namespace dit {

[[nodiscard]] const char* to_string(WireFormat format);
/// Throws std::invalid_argument that lists the names.
[[nodiscard]] WireFormat parse_wire_format(std::string_view name);

[[nodiscard]] std::size_t bytes_of(WireElement element);

/// What both ends remember of a block: what the receiver last had, in 24 bits. With a momentum they expect
/// that it moves on as it last did, momentum times as far. What is remembered is rounded, what arrives is
/// not; 16 bits would not do: the small steps of int1 and int2 would be lost in rounding, again and again.
/// What is remembered is always finite: where a number is not, the receiver gets NaN (or the infinity, from
/// formats that have it) in this step; the reference stays as it was and is expected to stay, so that the
/// next step is sound again.
struct WireReference {
  std::span<std::uint16_t> value;  ///< sign, exponent and 7 bits of mantissa of an fp32
  std::span<std::uint8_t> digits;  ///< 8 bits of mantissa more
  /// What value last moved by: a sign, 6 bits of exponent (2^-39 to 1.5 * 2^23) and 1 of mantissa; nothing
  /// where value was zero, as it is before the first step. Empty: no momentum.
  std::span<std::uint8_t> change;
  float momentum = 0;
};
[[nodiscard]] ReferenceParts parts_of(const WireReference& reference);
/// That all takes, of a number.
[[nodiscard]] constexpr std::size_t reference_bytes(bool momentum) {
  return momentum ? 4 : 3;
}

/// A block of `rows` rows of `row_elements` numbers, one after the other, to bytes and back. A value.
class Codec {
 public:
  Codec(WireFormat format, WireElement element, const CodecKernels& kernels = fastest_codec_kernels());

  [[nodiscard]] WireFormat format() const { return format_; }
  /// Throws std::length_error when there are more than 2^62.
  [[nodiscard]] std::size_t encoded_bytes(std::int64_t rows, std::int64_t row_elements) const;

  /// `in`, `out`: exactly the block's bytes and the encoded ones, or std::length_error says which is not.
  /// Decoding takes any bytes.
  void encode(std::int64_t rows, std::int64_t row_elements, std::span<const std::byte> in,
              std::span<std::byte> out) const;
  void decode(std::int64_t rows, std::int64_t row_elements, std::span<const std::byte> in,
              std::span<std::byte> out) const;

  /// The same, and the reference becomes what the receiver has: bit for bit the same at both ends, if it was
  /// before. `residual`: only the difference to what both ends expect travels; what one step leaves out, the
  /// next ones bring (error feedback). `came`: what decode will write; may be empty.
  void encode(std::int64_t rows, std::int64_t row_elements, std::span<const std::byte> in,
              const WireReference& reference, bool residual, std::span<std::byte> out,
              std::span<std::byte> came = {}) const;
  void decode(std::int64_t rows, std::int64_t row_elements, std::span<const std::byte> in,
              const WireReference& reference, bool residual, std::span<std::byte> out) const;

 private:
  class Pass;

  WireFormat format_;
  WireElement element_;
  const CodecKernels* kernels_;
};

/// Elements as numbers, and back (rounded to nearest, halves to even).
void load_elements(std::span<const std::byte> tensor, WireElement element, std::span<float> values,
                   const CodecKernels& kernels = fastest_codec_kernels());
void store_elements(std::span<const float> values, WireElement element, std::span<std::byte> tensor,
                    const CodecKernels& kernels = fastest_codec_kernels());

/// What is remembered, as elements.
void recall(const WireReference& reference, WireElement element, std::span<std::byte> out,
            const CodecKernels& kernels = fastest_codec_kernels());

/// Nothing travels: the reference moves on as both ends expect it to. `out`: as elements; may be empty.
void extrapolate(const WireReference& reference, WireElement element, std::span<std::byte> out,
                 const CodecKernels& kernels = fastest_codec_kernels());

}  // namespace dit
