/// @file
/// Operations that are not in use, and running one to its end.
#pragma once

#include <memory>

#include "comm/operation.hpp"

namespace tapa {

/// Operations not in use, kept with their memory. Thread-safe.
[[nodiscard]] std::unique_ptr<Operation> acquire_operation();
void release_operation(std::unique_ptr<Operation> operation);

/// Runs an operation that was begun to its end and takes it back. Throws CallError when it failed.
void run_to_end(std::unique_ptr<Operation> operation);

}  // namespace tapa
