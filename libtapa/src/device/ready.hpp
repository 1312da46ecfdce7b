/// @file
/// What a receiver says of a block that it expects, in the words of words.hpp. Pure, host and device.
///
/// Because receivers say it, no rank has to know what others have registered, how their rows lie, or whether
/// both mean the same number of bytes.
#pragma once

#include "device/strides.hpp"

namespace tapa::device {

struct Ready {
  Word target = 0;  ///< packed Target
  Strides strides;  ///< of a block whose bytes lie together: `row_bytes` alone
};

/// Words of a block whose bytes lie together, and of any other: the first five mean the same.
inline constexpr int kPlainReadyWords = 5;
inline constexpr int kReadyWords = 14;

/// A member of Ready and where its words begin.
struct ReadyField {
  int first;
  int end;
};
inline constexpr ReadyField kTargetField{0, 3};
inline constexpr ReadyField kRowBytesField{3, 5};
inline constexpr ReadyField kRowsField{5, 7};
inline constexpr ReadyField kPlanesField{7, 8};
inline constexpr ReadyField kRowStrideField{8, 11};
inline constexpr ReadyField kPlaneStrideField{11, 14};

TAPA_HOST_DEVICE constexpr Word piece_of(Word value, int piece) {
  return value >> (kPayloadBits * piece) & kPayloadMask;
}

/// The payload of word `index`.
TAPA_HOST_DEVICE constexpr Word payload_of(const Ready& ready, int index) {
  if (index < kTargetField.end) return piece_of(ready.target, index - kTargetField.first);
  if (index < kRowBytesField.end) return piece_of(ready.strides.row_bytes, index - kRowBytesField.first);
  if (index < kRowsField.end) return piece_of(ready.strides.rows, index - kRowsField.first);
  if (index < kPlanesField.end) return piece_of(ready.strides.planes, index - kPlanesField.first);
  if (index < kRowStrideField.end) return piece_of(ready.strides.row_stride, index - kRowStrideField.first);
  return piece_of(ready.strides.plane_stride, index - kPlaneStrideField.first);
}

/// What `payloads` of kPlainReadyWords or kReadyWords words say.
template <int words>
TAPA_HOST_DEVICE constexpr Ready ready_from(const Word (&payloads)[words]) {
  const auto value = [&](ReadyField field) {
    Word sum = 0;
    TAPA_UNROLL
    for (int index = field.first; index < field.end && index < words; ++index) {
      sum |= payloads[index] << (kPayloadBits * (index - field.first));
    }
    return sum;
  };
  Ready ready{value(kTargetField), {}};
  ready.strides.row_bytes = value(kRowBytesField);
  if (words > kPlainReadyWords) {
    ready.strides.rows = value(kRowsField);
    ready.strides.planes = value(kPlanesField);
    ready.strides.row_stride = value(kRowStrideField);
    ready.strides.plane_stride = value(kPlaneStrideField);
  } else {
    ready.strides.rows = 1;
    ready.strides.planes = 1;
  }
  return ready;
}

}  // namespace tapa::device
