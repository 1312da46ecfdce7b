/// @file
/// What one rank alone can know to be wrong with a call.
#pragma once

#include "run/arguments.hpp"

namespace tapa {

/// Throws CallError whose message names argument, value and what was expected. Not `strict`: what MPI lets
/// pass, erroneous or not, passes too: blocks shorter than the receiver expects, a send buffer that is the
/// receive buffer.
void check_arguments(const Arguments& arguments, int ranks, bool strict);

/// Throw CallError when an argument, or a block of a call, is in GPU memory, which can only be MPI's.
void require_host_memory(const void* address, const char* name, const char* why);
void require_host_memory(const Arguments& arguments, int ranks);

}  // namespace tapa
