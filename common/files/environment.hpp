/// @file
/// The environment, as the libraries read it. Whoever starts a program that has more rights than they have
/// (set-user-id, set-group-id, file capabilities) tells it nothing: a variable may name files and libraries.
#pragma once

#include <sys/auxv.h>
#include <unistd.h>

#include <cstdlib>

namespace files {

/// Whether this program has more rights than whoever started it.
[[nodiscard]] inline bool has_more_rights() {
  return ::getauxval(AT_SECURE) != 0;
}

/// Null where it is not set, and in a program with more rights.
[[nodiscard]] inline const char* variable(const char* name) {
  return ::secure_getenv(name);
}

/// All variables, ended by null; none in a program with more rights.
[[nodiscard]] inline const char* const* variables() {
  static constexpr const char* none[] = {nullptr};
  return has_more_rights() ? none : ::environ;
}

}  // namespace files
