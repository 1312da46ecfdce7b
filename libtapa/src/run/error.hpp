/// @file
/// Errors of the C entry points: an exception inside, a code and the thread's last error text outside.
#pragma once

#include <mpi.h>

#include <stdexcept>
#include <string>

namespace tapa {

/// A failed call: an MPI error class (or code) and a message that names the argument, its value and what was
/// expected.
class CallError : public std::runtime_error {
 public:
  CallError(int code, const std::string& message) : std::runtime_error(message), code_(code) {}
  [[nodiscard]] int code() const { return code_; }

 private:
  int code_;
};

/// Text of an MPI error code.
[[nodiscard]] std::string mpi_error_text(int code);

/// Throws CallError when an MPI call of the library's own failed.
void check_mpi(int code, const char* call);

/// The thread's last error text, "" when its last call succeeded.
[[nodiscard]] const char* last_error();
void clear_last_error();
/// Sets it without calling an error handler: for calls that fail in MPI's hands.
void set_last_error(const std::string& message);

/// Ends a failed call: keeps the message for TAPA_Last_error, calls the error handler of `comm` (of
/// MPI_COMM_WORLD when it is null) and returns `code`. Prints the message first when that handler ends the
/// program.
int report_error(MPI_Comm comm, int code, const std::string& message) noexcept;

/// Turns the exception being handled into a reported error; `function` names the entry point.
int report_current_exception(MPI_Comm comm, const char* function) noexcept;

/// Runs the body of an entry point: no exception leaves it.
template <class Body>
int guarded(MPI_Comm comm, const char* function, Body&& body) noexcept {
  clear_last_error();
  try {
    return body();
  } catch (...) {
    return report_current_exception(comm, function);
  }
}

}  // namespace tapa
