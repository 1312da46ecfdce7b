/// Where the numbers of a peer's block lie in a tensor, for kernels: a PeerBlock (layout.hpp) with the
/// tensor's strides, as plain data of a fixed size.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/number_codes.hpp"

namespace dit {

/// Division by a number that is known beforehand; exact for all of 32 bits.
struct Divisor {
  std::uint64_t reciprocal = 0;  ///< 2^64 / value, rounded up; 0: of 1
  std::uint32_t value = 1;
  std::uint32_t short_reciprocal = 0;  ///< 2^32 / value, rounded up; 0: of 1
};
[[nodiscard]] DIT_SHARED constexpr Divisor divisor(std::uint32_t value) {
  return {value > 1 ? ~std::uint64_t{0} / value + 1 : 0, value,
          value > 1 ? ~std::uint32_t{0} / value + 1 : 0};
}

/// Rows at equal distance.
struct RowsAt {
  std::uint32_t first = 0;  ///< row of the sample
  std::int64_t offset = 0;  ///< of that row, in elements
  std::int64_t stride = 0;  ///< to the next row
};

inline constexpr std::uint32_t kMostRuns = 6;

/// A block's rows: samples of equal shape, each of a few runs of rows, each row in pieces at equal distance.
struct BlockPlace {
  std::byte* tensor = nullptr;
  const std::uint32_t* rows = nullptr;  ///< of the block, those that travel, in their order; null: all
  Divisor row;                          ///< elements of a row
  Divisor piece;                        ///< that lie side by side
  std::int64_t piece_stride = 0;
  Divisor sample_rows;
  std::uint32_t samples = 1;
  std::int64_t sample_stride = 0;
  std::uint32_t run_count = 0;
  RowsAt runs[kMostRuns];
  bool wide = false;  ///< 16 bytes of a row lie side by side at multiples of 16 bytes
  bool plain =
      false;  ///< what PlainRows wants: wide, at most two runs of rows in one piece, not too far apart
  std::uint32_t second = 0;  ///< of a place that is plain: its second run's first row, or one beyond all
  std::int64_t jump = 0;     ///< elements that this one is further than the first run would have it
};

inline constexpr std::uint32_t kMostPlainRow = 32768;  // so that short reciprocals are exact

namespace {

DIT_SHARED std::uint32_t quotient(std::uint32_t number, const Divisor& by) {
#ifdef __CUDA_ARCH__
  const auto whole = static_cast<std::uint32_t>(__umul64hi(by.reciprocal, number));
#else
  __extension__ using Wide = unsigned __int128;
  const auto whole = static_cast<std::uint32_t>(Wide{by.reciprocal} * number >> 64U);
#endif
  return by.value == 1 ? number : whole;
}

constexpr std::uint32_t kShort = 1024;

/// Of a number below the divisor and kShort more.
DIT_SHARED std::uint32_t short_quotient(std::uint32_t number, const Divisor& by) {
#ifdef __CUDA_ARCH__
  const std::uint32_t whole = __umulhi(number, by.short_reciprocal);
#else
  const auto whole = static_cast<std::uint32_t>(std::uint64_t{number} * by.short_reciprocal >> 32U);
#endif
  const std::uint32_t once = number >= by.value ? 1U : 0U;
  return by.value == 1 ? number : by.value > kShort ? once : whole;
}

/// A number of what travels: its row of the block, and which of the row.
struct BlockIndex {
  std::uint32_t row, column;
};
DIT_SHARED BlockIndex index_of(const BlockPlace& place, std::uint32_t number) {
  const std::uint32_t row = quotient(number, place.row);
  const std::uint32_t column = number - row * place.row.value;
  return {place.rows != nullptr ? place.rows[row] : row, column};
}

DIT_SHARED std::uint32_t run_of(const BlockPlace& place, std::uint32_t row) {
  std::uint32_t run = 0;
  for (std::uint32_t i = 1; i < place.run_count; ++i) {
    run = row >= place.runs[i].first ? i : run;
  }
  return run;
}

/// In elements from the tensor's first one.
DIT_SHARED std::int64_t offset_of(const BlockPlace& place, BlockIndex index) {
  std::int64_t offset = 0;
  std::uint32_t row = index.row;
  if (place.samples > 1) {
    const std::uint32_t sample = quotient(row, place.sample_rows);
    row -= sample * place.sample_rows.value;
    offset = sample * place.sample_stride;
  }
  const std::uint32_t run = run_of(place, row);
  offset += place.runs[run].offset + (row - place.runs[run].first) * place.runs[run].stride;
  if (place.piece.value == place.row.value) {
    return offset + index.column;
  }
  const std::uint32_t piece = quotient(index.column, place.piece);
  return offset + piece * place.piece_stride + (index.column - piece * place.piece.value);
}

/// Up to kShort numbers that follow each other, in rows at equal distance.
struct Line {
  std::uint32_t rows = 0;    ///< 0: they lie otherwise
  std::uint32_t column = 0;  ///< of the first number
  std::int64_t offset = 0;   ///< of its row's first one, in elements
  std::int64_t stride = 0;
};
DIT_SHARED Line line_of(const BlockPlace& place, std::uint32_t first, std::uint32_t count) {
  Line line;
  if (place.rows != nullptr) {
    return line;
  }
  std::uint32_t row = quotient(first, place.row);
  line.column = first - row * place.row.value;
  const std::uint32_t more = short_quotient(line.column + count - 1, place.row);
  if (place.samples > 1) {
    const std::uint32_t sample = quotient(row, place.sample_rows);
    row -= sample * place.sample_rows.value;
    line.offset = sample * place.sample_stride;
    if (row + more >= place.sample_rows.value) {
      return line;
    }
  }
  const std::uint32_t run = run_of(place, row);
  line.stride = place.runs[run].stride;
  line.offset += place.runs[run].offset + (row - place.runs[run].first) * line.stride;
  line.rows = run == run_of(place, row + more) ? more + 1 : 0;
  return line;
}
DIT_SHARED std::int64_t offset_in(const BlockPlace& place, const Line& line, std::uint32_t number) {
  const std::uint32_t row = short_quotient(line.column + number, place.row);
  const std::uint32_t column = line.column + number - row * place.row.value;
  const std::int64_t offset = line.offset + row * line.stride;
  if (place.piece.value == place.row.value) {
    return offset + column;
  }
  const std::uint32_t piece = quotient(column, place.piece);
  return offset + piece * place.piece_stride + (column - piece * place.piece.value);
}

DIT_SHARED std::uint32_t upper_half(std::uint32_t a, std::uint32_t b) {
#ifdef __CUDA_ARCH__
  return __umulhi(a, b);
#else
  return static_cast<std::uint32_t>(std::uint64_t{a} * b >> 32U);
#endif
}

/// Up to kShort numbers that follow each other in a place that is plain: where they are, in few steps.
template <std::uint32_t kBytes>
class PlainRows {
 public:
  DIT_SHARED PlainRows(const BlockPlace& place, std::uint32_t first)
      : reciprocal_(place.row.short_reciprocal),
        skip_((static_cast<std::uint32_t>(place.runs[0].stride) - place.row.value) * kBytes) {
    const std::uint32_t row = quotient(first, place.row);
    column_ = first - row * place.row.value;
    const RowsAt& run = place.runs[0];
    const std::int64_t jump = place.jump * std::int64_t{kBytes};
    const bool second = row >= place.second;
    until_ = second ? ~std::uint32_t{0} : place.second - row;
    jump_ = static_cast<std::uint32_t>(jump);
    base_ =
        place.tensor + (run.offset + row * run.stride + column_) * std::int64_t{kBytes} + (second ? jump : 0);
  }

  DIT_SHARED std::byte* at(std::uint32_t number) const {
    const std::uint32_t row = upper_half(column_ + number, reciprocal_);
    const std::uint32_t offset = number * kBytes + row * skip_ + (row >= until_ ? jump_ : 0U);
    return base_ + static_cast<std::int32_t>(offset);
  }

 private:
  std::byte* base_;  // of the first number
  std::uint32_t column_, reciprocal_;
  std::uint32_t skip_;   // bytes from a row's end to the next one's begin
  std::uint32_t until_;  // row from the first number's on that is the second run's first
  std::uint32_t jump_;   // bytes that this one is further than it would be in the first run
};

}  // namespace
}  // namespace dit
