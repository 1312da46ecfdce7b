/// For plugins in C++: no exception leaves a C function; what was thrown becomes a status and words.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "dit/exchange.h"
#include "exchange/plugin_config.hpp"

namespace dit {

/// Thrown inside a plugin: what a C function is to return, and the words for last_error.
class PluginFailure : public std::exception {
 public:
  PluginFailure(dit_status status, std::string words) : status_(status), words_(std::move(words)) {}
  [[nodiscard]] dit_status status() const { return status_; }
  [[nodiscard]] const char* what() const noexcept override { return words_.c_str(); }

 private:
  dit_status status_;
  std::string words_;
};

/// Throws DIT_ERROR_ARGUMENT with these words if there are any: for the results of check_call and its like.
inline void require_argument(std::string problem) {
  if (!problem.empty()) throw PluginFailure(DIT_ERROR_ARGUMENT, std::move(problem));
}

/// Runs `body` and returns DIT_OK, or what it threw as a status, with the words in `last_error`.
template <typename Body>
dit_status guarded(std::string& last_error, Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
    return DIT_OK;
  } catch (const PluginFailure& failure) {
    last_error = failure.what();
    return failure.status();
  } catch (const ConfigError& error) {
    last_error = error.what();
    return DIT_ERROR_ARGUMENT;
  } catch (const std::bad_alloc&) {
    last_error = "out of memory";  // fits into any string without an allocation
    return DIT_ERROR_MEMORY;
  } catch (const std::exception& error) {
    last_error = error.what();
    return DIT_ERROR_INTERNAL;
  }
}

}  // namespace dit
