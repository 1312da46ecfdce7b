/// @file
/// Errors of the C entry points: an exception inside, a code and the thread's last error text outside.
///
/// A program's error handler may leave by longjmp or throw. So what the library does for a call ends first,
/// with all that it holds (contained()); the handler is called last, from a frame that has nothing to
/// destroy.
#pragma once

#include <mpi.h>

#include <array>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "run/words.hpp"

namespace tapa {

class TransportError;

/// A failed call: an MPI error class (or code) and a message that names the argument, its value and what was
/// expected.
class CallError : public std::runtime_error {
 public:
  /// Who runs into it: this rank, for all that is known, or all ranks, each with this text.
  enum class Seen { here, everywhere };

  CallError(int code, const std::string& message, Seen seen = Seen::here)
      : std::runtime_error(message), code_(code), seen_(seen) {}
  [[nodiscard]] int code() const { return code_; }
  [[nodiscard]] Seen seen() const { return seen_; }

 private:
  int code_;
  Seen seen_;
};

/// Throws CallError with a message of several parts: strings and numbers.
template <class... Parts>
[[noreturn]] void refuse(int code, const Parts&... message) {
  throw CallError(code, words(message...));
}

/// Text of an MPI error code.
[[nodiscard]] std::string mpi_error_text(int code);

/// MPI's code for a message that could not be moved.
[[nodiscard]] int code_of(const TransportError& error);

/// Throws CallError when an MPI call of the library's own failed.
void check_mpi(int code, const char* call);

/// What a thread notes of its calls; there also while the thread or the process ends.
class ErrorNotes {
 public:
  /// MPI carries out this entry point's call from here on, in which nothing went wrong so far: where it calls
  /// an error handler that asks for the text, or never returns, there are words.
  void begin_mpi(const char* function) {
    text_[0] = '\0';
    in_mpi_ = function;
  }
  /// It has returned this code: MPI's text of an error becomes the last one.
  void end_mpi(const char* function, int code) {
    in_mpi_ = nullptr;
    if (code != MPI_SUCCESS) note_mpi(function, code);
  }
  void clear() { begin_mpi(nullptr); }
  void note(const char* function, const char* what) noexcept;
  void set(const char* text);
  [[nodiscard]] const char* text();

 private:
  void note_mpi(const char* function, int code) noexcept;

  std::array<char, 2048> text_{};
  const char* in_mpi_ = nullptr;
};
/// This thread's.
[[nodiscard]] ErrorNotes& error_notes();

/// The thread's last error text, "" when its last call succeeded. Valid until the thread's next call; there
/// also while the thread or the process ends.
[[nodiscard]] const char* last_error();
void clear_last_error();
/// Sets it, cut to 2 KiB, without calling an error handler: for calls that fail in MPI's hands.
void set_last_error(const std::string& message);

/// MPI carries out this entry point's call, by `call`, which returns MPI's code and may never return.
template <class Call>
int in_mpi(const char* function, const Call& call) {
  ErrorNotes& notes = error_notes();
  notes.begin_mpi(function);
  const int code = call();
  notes.end_mpi(function, code);
  return code;
}

/// Whether errors on `comm` end the program.
[[nodiscard]] bool errors_are_fatal(MPI_Comm comm);

/// Prints the last error text where errors on `comm` end the program, as call_error_handler() does.
void say_if_fatal(MPI_Comm comm);

/// Calls the error handler of `comm`, of MPI_COMM_WORLD when it is null, if there is one, and returns `code`.
/// May not return: see above. Where that handler ends the program the last error text is printed first: by
/// the first rank of `comm` that has one, as programs fail alike on all ranks.
int call_error_handler(MPI_Comm comm, int code);

/// What the exception that is handled now means to MPI; the words are the exception's.
struct Failure {
  int code;
  const char* words;
};
[[nodiscard]] Failure current_failure() noexcept;

/// Keeps words of an error, or that there is no memory for them.
void keep_words(std::string& to, const char* words) noexcept;

/// Notes the exception being handled as the last error and returns its code; `function` names the entry
/// point.
int note_current_exception(const char* function) noexcept;

/// Runs what an entry point does and returns its code; the message of an error becomes the last one. No
/// exception leaves it, and no error handler is called.
template <class Body>
int contained(const char* function, Body&& body) noexcept {
  clear_last_error();
  try {
    body();
    return MPI_SUCCESS;
  } catch (...) {
    return note_current_exception(function);
  }
}

/// The same for a whole entry point: a failure is told to the error handler of `comm`. The body and whatever
/// its caller holds need no destructors.
template <class Body>
int guarded(MPI_Comm comm, const char* function, Body&& body) {
  static_assert(std::is_trivially_destructible_v<std::remove_reference_t<Body>>);
  const int code = contained(function, body);
  return code == MPI_SUCCESS ? code : call_error_handler(comm, code);
}

}  // namespace tapa
