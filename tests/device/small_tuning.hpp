/// @file
/// Small limits, so that short blocks take every way.
#pragma once

#include "device/choice.hpp"

namespace tapa::device {

inline Tuning small_tuning() {
  Tuning tuning;
  tuning.line_limit = 96;
  tuning.line_share = 32;
  tuning.bulk_share = 700;
  tuning.chunk = 256;
  tuning.renew_period = 8;
  tuning.line_channels = 3;
  tuning.bulk_channels = 2;
  return tuning;
}

}  // namespace tapa::device
