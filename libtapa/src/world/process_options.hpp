/// @file
/// The options of this process's environment, before the ranks agree on those of rank 0.
#pragma once

#include "world/options.hpp"

namespace tapa {

/// Unknown names are warned about once. Throws CallError for wrong values.
[[nodiscard]] Options environment_options();

/// TAPA_CHECK of this process's environment, its default when it is wrong.
[[nodiscard]] Check own_check();

/// TAPA_TIMEOUT of this process's environment, 0 when it is wrong: before the ranks agree on options there is
/// only that.
[[nodiscard]] double own_timeout();

/// Whether this process's environment asks for the report, which then counts forwarded calls too.
[[nodiscard]] bool report_is_wanted();

}  // namespace tapa
