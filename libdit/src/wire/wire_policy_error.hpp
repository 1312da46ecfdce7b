/// How the files of wire_policy.hpp refuse what they are given.
#pragma once

#include <stdexcept>
#include <string>

namespace dit {

[[noreturn]] inline void refuse_policy(const std::string& what, const std::string& value,
                                       const std::string& expected) {
  throw std::invalid_argument("wire policy: " + what + " = " + value + ": expected " + expected);
}

}  // namespace dit
