/// Profiles as pictures.
#pragma once

#include <string>
#include <vector>

#include "profile/image.hpp"
#include "profile/redundancy.hpp"

namespace dit {

/// What is in the rows of the picture, from the top.
[[nodiscard]] std::vector<std::string> heat_map_rows();
/// A map for each quantity (rows) and tensor (columns: q, k, v, o): steps to the right, layers downwards;
/// logarithmic from 1e-4, dark, to 1, bright.
[[nodiscard]] Image heat_maps(const RedundancyProfile& profile);

}  // namespace dit
