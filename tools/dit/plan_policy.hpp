/// @file
/// `dit plan --quality` and `--bytes`: a wire policy from a profile.
#pragma once

#include <optional>
#include <string>

#include "job.hpp"
#include "run_words.hpp"

namespace dit::tool {

struct PolicyWords {
  double quality = 0;              ///< dB; 0: not given
  double bytes = 0;                ///< of what 16-bit numbers take; 0: not given
  std::optional<double> momentum;  ///< not given: what suits the number of steps
  int images = 1;
  int ranks = 4;
  int ranks_per_node = 1;
  std::string out;
};

/// Finds the policy, tries it on ranks that are threads and corrects it where its images are worse than
/// foretold.
void plan_policy(const RunWords& run, const PolicyWords& words);

}  // namespace dit::tool
