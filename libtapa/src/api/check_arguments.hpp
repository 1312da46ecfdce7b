/// @file
/// What one rank alone can know to be wrong with a call.
#pragma once

#include "run/arguments.hpp"

namespace tapa {

/// Throws CallError whose message names argument, value and what was expected. Not `strict`: what MPI lets
/// pass, erroneous or not, passes too: blocks shorter than the receiver expects, a send buffer that is the
/// receive buffer.
void check_arguments(const Arguments& arguments, int ranks, bool strict);

}  // namespace tapa
