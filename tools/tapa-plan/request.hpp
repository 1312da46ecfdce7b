/// @file
/// What the user of tapa-plan asks for, from words to values.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "plan/choice.hpp"
#include "plan/counts.hpp"
#include "topology/topology.hpp"

namespace tapa::plan_tool {

/// Most ranks for which tapa-plan writes the plan of every rank.
inline constexpr int most_ranks = 2048;
/// Largest block, so that sums over all ranks stay far from overflow.
inline constexpr std::size_t most_bytes = std::size_t{1} << 40;

/// The command line, as words.
struct Words {
  std::string topology;
  int ranks = 0;  ///< 0: as many as the topology has
  std::string placement = "block";
  std::string bytes = "1K";
  std::string counts_file;
  std::string plan;
  std::string algorithm, split, leaders, radix, window, order, fast, slow, local, pipeline;
};

/// Throws std::invalid_argument that names the option.
[[nodiscard]] Topology read_topology_words(const Words& words);

/// "1K,64K,1M" -> sizes. Suffixes K, M, G are powers of 1024. Throws std::invalid_argument.
[[nodiscard]] std::vector<std::size_t> read_sizes(const std::string& text);

/// A matrix of bytes: row = source, column = destination, numbers separated by blanks or commas, a row a
/// line, '#' begins a comment. Throws std::invalid_argument that names file and line.
[[nodiscard]] Counts read_counts(const std::string& file, int ranks);

/// --plan, or the text that the single options make; nothing when the library shall choose.
/// Throws std::invalid_argument.
[[nodiscard]] std::optional<Choice> read_choice(const Words& words);

}  // namespace tapa::plan_tool
