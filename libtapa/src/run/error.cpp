#include "run/error.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <new>
#include <optional>
#include <thread>

#include "run/log.hpp"
#include "run/per_thread.hpp"
#include "run/world.hpp"
#include "transport/transport.hpp"

namespace tapa {

thread_local constinit PerThread per_thread;

namespace {

/// Ranks other than the first give it the time to speak and to end the job: most mistakes are made by all.
void say_before_the_end(MPI_Comm comm) noexcept {
  using namespace std::chrono_literals;
  try {
    int rank = 0;
    PMPI_Comm_rank(comm, &rank);
    if (rank > 0) std::this_thread::sleep_for(1s + std::min(rank, 10) * 100ms);
    log_error(error_notes().text());
  } catch (...) {  // no memory for it: the error handler alone must do
  }
}

/// MPI's text; no memory is needed for it.
std::array<char, MPI_MAX_ERROR_STRING + 1> error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING + 1> text{};
  int length = 0;
  if (PMPI_Error_string(code, text.data(), &length) != MPI_SUCCESS)
    std::snprintf(text.data(), text.size(), "MPI error %d", code);
  return text;
}

/// To be compared only.
std::optional<MPI_Errhandler> handler_of(MPI_Comm comm) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  if (PMPI_Comm_get_errhandler(comm, &handler) != MPI_SUCCESS) return std::nullopt;
  const MPI_Errhandler found = handler;
  if (handler != MPI_ERRHANDLER_NULL) PMPI_Errhandler_free(&handler);
  return found;
}

}  // namespace

std::string mpi_error_text(int code) {
  return error_text(code).data();
}

int code_of(const TransportError& error) {
  if (error.truncated()) return MPI_ERR_TRUNCATE;
  if (error.out_of_memory()) return MPI_ERR_NO_MEM;
  return error.mpi_code() != 0 ? error.mpi_code() : MPI_ERR_OTHER;
}

void check_mpi(int code, const char* call) {
  if (code != MPI_SUCCESS) throw CallError(code, std::string(call) + ": " + mpi_error_text(code));
}

void ErrorNotes::note(const char* function, const char* what) noexcept {
  std::snprintf(text_.data(), text_.size(), "%s: %s", function, what);
}

void ErrorNotes::note_mpi(const char* function, int code) noexcept {
  note(function, error_text(code).data());
}

void ErrorNotes::set(const char* text) {
  std::snprintf(text_.data(), text_.size(), "%s", text);
}

const char* ErrorNotes::text() {
  if (in_mpi_ != nullptr && text_[0] == '\0')  // an error handler asks, or has left by a jump
    note(in_mpi_, "an error in MPI's own call, whose code the error handler got");
  return text_.data();
}

ErrorNotes& error_notes() {
  return per_thread.errors;
}

const char* last_error() {
  return error_notes().text();
}

void clear_last_error() {
  error_notes().clear();
}

void set_last_error(const std::string& message) {
  error_notes().set(message.c_str());
}

bool errors_are_fatal(MPI_Comm comm) {
  const auto handler = handler_of(comm);
#if MPI_VERSION >= 4
  if (handler == MPI_ERRORS_ABORT) return true;
#endif
  return !handler || handler == MPI_ERRORS_ARE_FATAL;
}

void say_if_fatal(MPI_Comm comm) {
  if (errors_are_fatal(comm)) say_before_the_end(comm);
}

int call_error_handler(MPI_Comm comm, int code) {
  if (comm == MPI_COMM_NULL && !world_runs()) return code;
  const MPI_Comm target = comm == MPI_COMM_NULL ? MPI_COMM_WORLD : comm;
  say_if_fatal(target);
  if (handler_of(target) != MPI_ERRORS_RETURN) PMPI_Comm_call_errhandler(target, code);
  return code;
}

Failure current_failure() noexcept {
  try {
    throw;
  } catch (const CallError& e) {
    return {e.code(), e.what()};
  } catch (const TransportError& e) {
    return {code_of(e), e.what()};
  } catch (const std::invalid_argument& e) {  // of options and files, whose messages are the user's
    return {MPI_ERR_ARG, e.what()};
  } catch (const std::bad_alloc&) {
    return {MPI_ERR_NO_MEM, "out of memory"};
  } catch (const std::exception& e) {
    return {MPI_ERR_INTERN, e.what()};
  } catch (...) {
    return {MPI_ERR_INTERN, "unknown exception"};
  }
}

void keep_words(std::string& to, const char* words) noexcept {
  try {
    to = words;
  } catch (const std::bad_alloc&) {
    to = "out of memory";  // short enough to lie in the string itself
  }
}

int note_current_exception(const char* function) noexcept {
  const Failure failure = current_failure();
  error_notes().note(function, failure.words);
  return failure.code;
}

}  // namespace tapa
