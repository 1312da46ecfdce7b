/// @file
/// Errors of the device engine: an exception inside, a code and the thread's last error text outside.
#pragma once

#include <stdexcept>
#include <string>

#include "tapa/device.h"

namespace tapa::device {

class DeviceError : public std::runtime_error {
 public:
  DeviceError(int code, const std::string& message) : std::runtime_error(message), code_(code) {}
  [[nodiscard]] int code() const { return code_; }

 private:
  int code_;
};

/// The thread's last error text.
[[nodiscard]] const char* last_error();
void clear_last_error();
/// Notes the exception being handled and returns its code; `function` names the entry point.
int note_exception(const char* function) noexcept;

/// Runs what an entry point does; no exception leaves it.
template <class Body>
int contained(const char* function, const Body& body) noexcept {
  clear_last_error();
  try {
    body();
    return TAPA_DEVICE_SUCCESS;
  } catch (...) {
    return note_exception(function);
  }
}

}  // namespace tapa::device
