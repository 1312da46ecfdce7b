/// @file
/// What the host says of a call that failed on the device. Knows no CUDA.
#pragma once

#include <span>
#include <string>

#include "device/call.hpp"

namespace tapa::device {

/// A number without zeros at its end.
[[nodiscard]] std::string short_text(double number);

/// On stderr: a rank has not come to free a communicator within so many seconds.
void say_not_freed(int rank, double timeout);

/// Throws DeviceError when something is noted in `failure`, which the device may write to meanwhile. `rank`:
/// the one that did not arrive or agree, or -1. `names`: what the caller calls each rank. `timeout`: seconds.
void throw_failure(const volatile Failure& failure, std::span<const int> names, double timeout, int& rank);

}  // namespace tapa::device
