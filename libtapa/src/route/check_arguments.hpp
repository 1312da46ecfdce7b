/// @file
/// What one rank alone can know to be wrong with a call.
#pragma once

#include "run/arguments.hpp"
#include "run/error.hpp"

namespace tapa {

/// A mistake that MPI finds too, in the call itself, before it sends to other ranks.
class Mistake : public CallError {
 public:
  using CallError::CallError;
};

/// Throws CallError. Not `strict`: blocks shorter than the receiver expects, and equal buffers, pass as they
/// do in MPI. `own`: this rank, where MPI compares the two ends of its own block; else -1.
void check_arguments(const Arguments& arguments, int ranks, bool strict, int own = -1);

/// What this MPI looks at before it begins a call. Throws CallError.
struct MpiChecks {
  bool arguments;  ///< at any
  bool own_block;  ///< also whether both ends of a rank's own block are as long
};
[[nodiscard]] const MpiChecks& mpi_checks();

/// Throw CallError: an argument is in GPU memory, or is it where it is.
[[noreturn]] void refuse_device_memory(const char* name, const char* why);
void require_host_memory(const void* address, const char* name, const char* why);

}  // namespace tapa
