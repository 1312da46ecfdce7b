/// @file
/// Operations that are not in use, and running one to its end.
#pragma once

#include <memory>

#include "carry/operation.hpp"

namespace tapa {

/// Operations not in use, kept with their memory. Thread-safe.
[[nodiscard]] std::unique_ptr<Operation> acquire_operation();
void release_operation(std::unique_ptr<Operation> operation);

/// Runs an operation that was begun to its end and takes it back. False: MPI is to carry it out, see `route`.
/// Throws CallError when it failed.
bool run_to_end(std::unique_ptr<Operation> operation, Route& route);
/// The same for one that MPI cannot carry out.
void run_to_end(std::unique_ptr<Operation> operation);

}  // namespace tapa
