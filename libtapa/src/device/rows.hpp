/// @file
/// Where the bytes of a strided block are: from a position in the block to an address, fast enough for each
/// 16 bytes of a copy. Host and device.
#pragma once

#include "device/strides.hpp"

namespace tapa::device {

/// Divides numbers below 2^32 - 1 by one below 2^32, by multiplication: with m = floor((2^64 - 1) / d), m (n
/// + 1) / 2^64 is less than (n + 1) / d, by at most (n + 1) / 2^64, which is less than 1 / d. So it lies in
/// [n / d, (n + 1) / d).
struct Divider {
  Word multiplier = 0;

  TAPA_HOST_DEVICE constexpr std::uint32_t quotient(std::uint32_t number) const {
    const Word next = Word{number} + 1;
    const Word low = (multiplier & 0xffffffff) * next >> 32;
    return static_cast<std::uint32_t>(((multiplier >> 32) * next + low) >> 32);
  }
};
TAPA_HOST_DEVICE constexpr Divider divider(Word divisor) {
  return {~Word{0} / (divisor == 0 ? 1 : divisor)};
}

/// A strided block in memory.
struct Rows {
  std::byte* base = nullptr;
  Word row_stride = 0;
  Word plane_jump = 0;  ///< from behind a plane's last row to the next plane's first; wraps below 0
  Divider row;          ///< by row_bytes
  Divider plane;        ///< by rows
  std::uint32_t row_bytes = 0;
  std::uint32_t rows = 0;
  std::uint32_t planes = 0;

  TAPA_HOST_DEVICE constexpr bool lie_together() const { return rows <= 1; }

  TAPA_HOST_DEVICE std::byte* at(std::uint32_t position) const {
    if (lie_together()) return base + position;
    const std::uint32_t index = row.quotient(position);
    Word offset = position - index * row_bytes + index * row_stride;
    if (planes > 1) offset += plane.quotient(index) * plane_jump;
    return base + offset;
  }
  /// Bits that are not 0 in a place where a copy begins or ends: their lowest limits its units.
  TAPA_HOST_DEVICE Word raggedness() const {
    Word bits = reinterpret_cast<std::uintptr_t>(base);
    if (!lie_together()) bits |= row_stride | row_bytes | (planes > 1 ? plane_jump : 0);
    return bits;
  }
};

/// `strides`: collapsed.
TAPA_HOST_DEVICE inline Rows rows_at(std::byte* base, const Strides& strides) {
  Rows rows;
  rows.base = base;
  rows.row_stride = strides.row_stride;
  rows.plane_jump = strides.plane_stride - strides.rows * strides.row_stride;
  rows.row_bytes = static_cast<std::uint32_t>(strides.row_bytes);
  rows.rows = static_cast<std::uint32_t>(strides.rows);
  rows.planes = static_cast<std::uint32_t>(strides.planes);
  if (strides.rows > 1) rows.row = divider(strides.row_bytes);
  if (strides.planes > 1) rows.plane = divider(strides.rows);
  return rows;
}
/// Bytes that lie together.
TAPA_HOST_DEVICE inline Rows together(std::byte* base) {
  Rows rows;
  rows.base = base;
  return rows;
}

/// What rows_at() was made of.
TAPA_HOST_DEVICE constexpr Strides strides_of(const Rows& rows) {
  const Word plane_stride = rows.planes > 1 ? rows.plane_jump + rows.rows * rows.row_stride : 0;
  return {rows.row_bytes, rows.rows, rows.row_stride, rows.planes, plane_stride};
}

}  // namespace tapa::device
