/// @file
/// What the user of tapa-sim asks for, from words to values.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "job.hpp"
#include "topology/topology.hpp"

namespace tapa::sim_tool {

/// The command line, as words.
struct Words {
  std::string machine;
  int nodes = 0;     ///< 0: 16, or as many as make about 128 ranks
  int per_node = 0;  ///< 0: all places of a node
  std::string placement = "block";
  std::string bytes = "8:1M";
  std::vector<std::string> plans{"plausible"};
  std::string rivals = "ompi,mpich,mvapich2,impi,bruck,ring,basic_linear";
  int jobs = 0;       ///< 0: one for each core
  double memory = 0;  ///< GiB, 0: half of what is free
};

/// The ranks on their nodes. Throws std::invalid_argument that names the option.
[[nodiscard]] Topology make_topology(const sim::Simulated& simulated, const Words& words);

/// "8:4K" is 8, 32, ... up to 4096; "8,64,512" a list. Throws std::invalid_argument.
[[nodiscard]] std::vector<std::size_t> read_sizes(const std::string& text);

/// What MPI's selectors and algorithms are called in the simulator; empty text: none.
/// Throws std::invalid_argument for an unknown one.
[[nodiscard]] std::vector<std::string> read_rivals(const std::string& text);

}  // namespace tapa::sim_tool
