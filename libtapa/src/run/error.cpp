#include "run/error.hpp"

#include <exception>
#include <new>

#include "run/log.hpp"
#include "transport/transport.hpp"

namespace tapa {

namespace {

thread_local std::string last_error_text;

bool handler_is_fatal(MPI_Comm comm) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  if (PMPI_Comm_get_errhandler(comm, &handler) != MPI_SUCCESS) return true;
  const bool fatal = handler == MPI_ERRORS_ARE_FATAL;
  if (handler != MPI_ERRHANDLER_NULL) PMPI_Errhandler_free(&handler);
  return fatal;
}

}  // namespace

std::string mpi_error_text(int code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  if (PMPI_Error_string(code, text, &length) != MPI_SUCCESS) return "MPI error " + std::to_string(code);
  return {text, static_cast<std::size_t>(length)};
}

void check_mpi(int code, const char* call) {
  if (code != MPI_SUCCESS) throw CallError(code, std::string(call) + ": " + mpi_error_text(code));
}

const char* last_error() {
  return last_error_text.c_str();
}
void clear_last_error() {
  last_error_text.clear();
}

void set_last_error(const std::string& message) {
  last_error_text = message;
}

int report_error(MPI_Comm comm, int code, const std::string& message) noexcept {
  try {
    last_error_text = message;
    const MPI_Comm target = comm == MPI_COMM_NULL ? MPI_COMM_WORLD : comm;
    if (handler_is_fatal(target)) log_error(message);
    PMPI_Comm_call_errhandler(target, code);
  } catch (...) {  // out of memory while reporting: the code alone must do
  }
  return code;
}

int report_current_exception(MPI_Comm comm, const char* function) noexcept {
  try {
    throw;
  } catch (const CallError& e) {
    return report_error(comm, e.code(), std::string(function) + ": " + e.what());
  } catch (const TransportError& e) {
    return report_error(comm, e.mpi_code() != 0 ? e.mpi_code() : MPI_ERR_OTHER,
                        std::string(function) + ": " + e.what());
  } catch (const std::bad_alloc&) {
    return report_error(comm, MPI_ERR_NO_MEM, std::string(function) + ": out of memory");
  } catch (const std::exception& e) {
    return report_error(comm, MPI_ERR_INTERN, std::string(function) + ": " + e.what());
  } catch (...) {
    return report_error(comm, MPI_ERR_INTERN, std::string(function) + ": unknown exception");
  }
}

}  // namespace tapa
