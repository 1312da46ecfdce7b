/// @file
/// What the host says of a call that failed on the device. Knows no CUDA.
#pragma once

#include <string>

#include "device/call.hpp"

namespace tapa::device {

/// A number without zeros at its end.
[[nodiscard]] std::string short_text(double number);

/// Throws DeviceError when something is noted in `failure`, which the device may write to meanwhile. `rank`:
/// the one that did not arrive or agree, or -1. `timeout`: seconds.
void throw_failure(const volatile Failure& failure, int size, double timeout, int& rank);

}  // namespace tapa::device
