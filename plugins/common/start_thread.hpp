/// Threads of exchanges, which a process may be refused.
#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "dit/exchange.h"
#include "exchange/plugin_guard.hpp"

namespace dit {

/// Throws PluginFailure that says what it was for, and what the system said.
template <class... Call>
[[nodiscard]] std::thread start_thread(const char* purpose, Call&&... call) {
  try {
    return std::thread(std::forward<Call>(call)...);
  } catch (const std::system_error& error) {
    throw PluginFailure(DIT_ERROR_UNSUPPORTED, std::string("no thread could be started for ") + purpose +
                                                   ": " + error.what() +
                                                   ", expected a process that may start threads");
  }
}

}  // namespace dit
