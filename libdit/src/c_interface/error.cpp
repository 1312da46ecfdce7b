#include "c_interface/error.hpp"

namespace dit::c_interface {
namespace {

thread_local std::string last_error;

}  // namespace

dit_status fail(dit_status status, const char* function, const char* what) noexcept {
  try {
    last_error = std::string(function) + ": " + what;
  } catch (const std::bad_alloc&) {
    last_error.clear();  // the status alone must do
  }
  return status;
}

dit_status fail_with_current_exception(const char* function) noexcept {
  try {
    throw;
  } catch (const ExchangeError& error) {
    return fail(error.status(), function, error.what());
  } catch (const std::bad_alloc&) {
    return fail(DIT_ERROR_MEMORY, function, "not enough memory");
  } catch (const std::invalid_argument& error) {
    return fail(DIT_ERROR_ARGUMENT, function, error.what());
  } catch (const std::exception& error) {
    return fail(DIT_ERROR_INTERNAL, function, error.what());
  } catch (...) {
    return fail(DIT_ERROR_INTERNAL, function, "an unknown exception");
  }
}

void require_memory(const char* name, const void* memory, std::size_t bytes, std::size_t expected) {
  if (bytes != expected) {
    throw std::invalid_argument(std::string(name) + " has " + std::to_string(bytes) + " bytes: expected " +
                                std::to_string(expected));
  }
  if (bytes > 0) {
    (void)required(static_cast<const std::byte*>(memory), name);
  }
}

}  // namespace dit::c_interface

extern "C" {

const char* dit_version(void) {
  static const std::string version = std::to_string(DIT_VERSION_MAJOR) + "." +
                                     std::to_string(DIT_VERSION_MINOR) + "." +
                                     std::to_string(DIT_VERSION_PATCH);
  return version.c_str();
}

const char* dit_last_error(void) {
  return dit::c_interface::last_error.c_str();
}

}  // extern "C"
