#include "c_interface/error.hpp"

#include <algorithm>
#include <cstring>

#include "exchange/log.hpp"

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

void require_struct_size(std::size_t given, std::size_t known, const void* from, const char* name,
                         const char* type) {
  constexpr std::size_t kMost = 4096;  // no version comes near
  if (given < sizeof(std::size_t) || given > kMost) {
    throw std::invalid_argument(std::string(name) + "->struct_size = " + std::to_string(given) +
                                ": expected sizeof(" + type + "), here " + std::to_string(known));
  }
  const auto* bytes = static_cast<const unsigned char*>(from);
  if (from != nullptr && given > known &&
      std::any_of(bytes + known, bytes + given, [](unsigned char byte) { return byte != 0; })) {
    throw std::invalid_argument(std::string(name) + " has members that are set behind the " +
                                std::to_string(known) + " bytes of " + type +
                                " that this version of the library knows: expected zeros there");
  }
}

void require_none(const char* what, int count, const char* of) {
  if (count > 0) {
    throw std::invalid_argument(std::string(what) + " has " + std::to_string(count) + " " + of +
                                ": expected that they are freed before");
  }
}

void write_text(const std::string& full, char* text, std::size_t bytes, std::size_t* length) {
  if (bytes > 0) {
    char& first = required(text, "text");
    const std::size_t copied = std::min(bytes - 1, full.size());
    std::memcpy(&first, full.data(), copied);
    text[copied] = '\0';
  }
  if (length != nullptr) {
    *length = full.size();
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

dit_status dit_set_log(void (*log)(const char* line, void* user), void* user) {
  return dit::c_interface::guarded(__func__, [&] {
    if (log == nullptr) {
      return dit::set_log_sink({});
    }
    dit::set_log_sink([log, user](std::string_view line) { log(std::string(line).c_str(), user); });
  });
}

}  // extern "C"
