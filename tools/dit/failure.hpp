/// @file
/// How a command ends when something is wrong: one line for the user and an exit status.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>

namespace dit::tool {

inline constexpr int exit_failed = 1;    ///< could not be done, or a check did not hold
inline constexpr int exit_argument = 2;  ///< was asked for in a wrong way

/// Carries an exit status; `said`: the line was already printed.
class Failure : public std::runtime_error {
 public:
  Failure(int status, const std::string& what, bool said = false)
      : std::runtime_error(what), status_(status), said_(said) {}
  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] bool said() const { return said_; }

 private:
  int status_;
  bool said_;
};

/// What an exception means for the user.
struct Verdict {
  int status = exit_failed;
  std::string line;  ///< without a line's end
  bool said = false;
  bool follows = false;  ///< from the failure of another rank, which has the cause to tell
};
[[nodiscard]] Verdict verdict_of(const std::exception_ptr& error);

/// "dit: LINE" on the standard error, in one write.
void say(const std::string& line);

}  // namespace dit::tool
