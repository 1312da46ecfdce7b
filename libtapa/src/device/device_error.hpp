/// @file
/// Errors of the device engine: an exception inside, a code and the thread's last error text outside.
#pragma once

#include <array>
#include <exception>
#include <string>
#include <string_view>

#include "tapa/device.h"

namespace tapa::device {

/// Keeps its words itself: one is thrown where there is no memory, too.
class DeviceError : public std::exception {
 public:
  DeviceError(int code, std::string_view message) : code_(code) {
    message.copy(text_.data(), text_.size() - 1);
  }
  [[nodiscard]] int code() const { return code_; }
  [[nodiscard]] const char* what() const noexcept override { return text_.data(); }

 private:
  int code_;
  std::array<char, 1024> text_{};
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
