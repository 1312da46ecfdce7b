/// @file
/// TAPA_TOPOLOGY: a topology in place of what detection finds.
#pragma once

#include <string>

#include "topology/topology.hpp"

namespace tapa {

/// The topology that `text` asks for: factors from slow to fast ("2x2x3", product == ranks), a machine name
/// ("aurora"), or a topology file ("file.json"). Pure but for reading the file.
/// Throws std::invalid_argument that starts with "TAPA_TOPOLOGY=text: ".
[[nodiscard]] Topology override_topology(const std::string& text, int ranks);

/// Whether `text` has the form of factors: digits joined by 'x', at least one of each digit group.
[[nodiscard]] bool looks_like_factors(const std::string& text);

/// Reads "2x2x3". Throws std::invalid_argument when it is not of that form or a factor is out of range.
[[nodiscard]] std::vector<int> parse_factors(const std::string& text);

}  // namespace tapa
