/// For plugins in C++: no exception leaves a C function; what was thrown becomes a status and words.
#pragma once

#include <array>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "dit/exchange.h"
#include "exchange/plugin_config.hpp"

namespace dit {

/// Thrown inside a plugin: what a C function is to return, and the words for last_error. Keeps these itself:
/// one is thrown where there is no memory, too.
class PluginFailure : public std::exception {
 public:
  PluginFailure(dit_status status, std::string_view words) : status_(status) {
    words.copy(words_.data(), words_.size() - 1);
  }
  [[nodiscard]] dit_status status() const { return status_; }
  [[nodiscard]] const char* what() const noexcept override { return words_.data(); }

 private:
  dit_status status_;
  std::array<char, 1024> words_{};
};

/// Throws DIT_ERROR_ARGUMENT with these words if there are any: for the results of check_call and its like.
inline void require_argument(std::string_view problem) {
  if (!problem.empty()) throw PluginFailure(DIT_ERROR_ARGUMENT, problem);
}

/// Fewer words where there is no memory for them.
inline void note_words(std::string& last_error, const char* words) noexcept {
  try {
    last_error = words;
  } catch (const std::bad_alloc&) {
    last_error = "out of memory";  // fits into any string without an allocation
  }
}

/// The status of the exception that is handled now, whose words `note` is given.
template <class Note>
dit_status status_of_exception(const Note& note) noexcept {
  try {
    throw;
  } catch (const PluginFailure& failure) {
    note(failure.what());
    return failure.status();
  } catch (const ConfigError& error) {
    note(error.what());
    return DIT_ERROR_ARGUMENT;
  } catch (const std::bad_alloc&) {
    note("out of memory");
    return DIT_ERROR_MEMORY;
  } catch (const std::exception& error) {
    note(error.what());
  } catch (...) {
    note("unknown exception");
  }
  return DIT_ERROR_INTERNAL;
}

/// Runs `body` and returns DIT_OK, or what it threw as a status, with the words in `last_error`.
template <typename Body>
dit_status guarded(std::string& last_error, Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
    return DIT_OK;
  } catch (...) {
    return status_of_exception([&](const char* words) { note_words(last_error, words); });
  }
}

}  // namespace dit
