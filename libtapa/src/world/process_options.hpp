/// @file
/// The options of this process's environment, before the ranks agree on those of rank 0.
#pragma once

#include "world/options.hpp"

namespace tapa {

/// Unknown names are warned about once. Throws CallError for wrong values.
[[nodiscard]] Options environment_options();

/// As they were when they were first asked for; the defaults where some are wrong, which others tell. Before
/// the ranks agree on options there are only these.
[[nodiscard]] const Options& own_options();

/// Whether these ask for the report, which then counts forwarded calls too.
[[nodiscard]] inline bool report_is_wanted() {
  return own_options().settings().report != Reporting::off;
}

}  // namespace tapa
