/// What an exception says.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>

namespace dit {

inline const std::string nothing_thrown = "nothing was thrown";

/// Exceptions other than Error, or types derived from it, pass.
template <typename Error = std::exception, typename Body>
std::string message_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return nothing_thrown;
}

/// That of a refused argument.
template <typename Body>
std::string misuse_of(const Body& body) {
  return message_of<std::invalid_argument>(body);
}

}  // namespace dit
