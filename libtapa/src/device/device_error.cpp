#include "device/device_error.hpp"

#include <array>
#include <cstdio>
#include <new>

namespace tapa::device {

namespace {

thread_local constinit std::array<char, 1024> last_error_text{};

int note(const char* function, const char* what, int code) noexcept {
  std::snprintf(last_error_text.data(), last_error_text.size(), "%s: %s", function, what);
  return code;
}

}  // namespace

const char* last_error() {
  return last_error_text.data();
}
void clear_last_error() {
  last_error_text[0] = '\0';
}

int note_exception(const char* function) noexcept {
  try {
    throw;
  } catch (const DeviceError& error) {
    return note(function, error.what(), error.code());
  } catch (const std::bad_alloc&) {
    return note(function, "out of memory", TAPA_DEVICE_ERR_MEMORY);
  } catch (const std::exception& error) {
    return note(function, error.what(), TAPA_DEVICE_ERR_ARG);
  } catch (...) {
    return note(function, "unknown exception", TAPA_DEVICE_ERR_ARG);
  }
}

}  // namespace tapa::device
