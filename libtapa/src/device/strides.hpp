/// @file
/// Blocks whose bytes do not lie together: planes of rows at equal distances. Pure, host and device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/words.hpp"

namespace tapa::device {

/// Bytes; row r of plane p begins at p * plane_stride + r * row_stride.
struct Strides {
  Word row_bytes = 0;
  Word rows = 0;
  Word row_stride = 0;
  Word planes = 0;
  Word plane_stride = 0;
};

/// Positions in a block that a launch counts fit in 32 bits, also one behind the last.
inline constexpr Word kLongestStrided = 0xfffffffe;
/// Planes travel in one word.
inline constexpr Word kMostPlanes = kPayloadMask;

TAPA_HOST_DEVICE constexpr Word bytes_of(const Strides& strides) {
  return strides.row_bytes * strides.rows * strides.planes;
}
/// Bytes from the first to behind the last.
TAPA_HOST_DEVICE constexpr Word extent_of(const Strides& strides) {
  if (bytes_of(strides) == 0) return 0;
  return (strides.planes - 1) * strides.plane_stride + (strides.rows - 1) * strides.row_stride +
         strides.row_bytes;
}

/// The same bytes in the same order in as few rows, then planes, as can be: rows that touch are one. Strides
/// that mean nothing are 0; a block of no bytes is all 0.
constexpr Strides collapsed(Strides strides) {
  if (bytes_of(strides) == 0) return {};
  if (strides.rows == 1) {
    strides.rows = strides.planes;
    strides.row_stride = strides.plane_stride;
    strides.planes = 1;
  }
  if (strides.row_stride == strides.row_bytes && strides.rows > 1) {
    strides.row_bytes *= strides.rows;
    strides.rows = strides.planes;
    strides.row_stride = strides.plane_stride;
    strides.planes = 1;
  }
  if (strides.planes > 1 && strides.plane_stride == strides.rows * strides.row_stride) {
    strides.rows *= strides.planes;
    strides.planes = 1;
  }
  if (strides.row_stride == strides.row_bytes && strides.rows > 1) {
    strides.row_bytes *= strides.rows;
    strides.rows = 1;
  }
  if (strides.rows == 1) strides.row_stride = 0;
  if (strides.planes == 1) strides.plane_stride = 0;
  return strides;
}

/// A block's rows and where the first one is, from its buffer's begin.
struct PlacedBlock {
  std::size_t offset = 0;
  Strides strides;
};

}  // namespace tapa::device
