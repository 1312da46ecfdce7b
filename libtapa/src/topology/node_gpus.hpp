/// @file
/// What the ranks of each node together know of its GPUs: batch systems may show each rank its own alone. Of
/// each GPU what a rank that drives it says counts, if one does. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "topology/record.hpp"

namespace tapa {

class NodeGpus {
 public:
  /// `node`: of each rank, below the number of ranks.
  NodeGpus(const std::vector<Record>& records, const std::vector<int>& node);

  /// Whether it is known which GPU the rank drives.
  [[nodiscard]] bool knows(std::size_t rank) const { return own_[rank].has_value(); }
  /// Number in its node of the NVLink island of the rank's GPU; -1 when nothing joins it to others.
  [[nodiscard]] int island(std::size_t rank) const;
  /// Between the GPUs of two ranks; nothing where these are of two nodes, or one is not known.
  [[nodiscard]] std::optional<GpuPath> path(std::size_t a, std::size_t b) const;

 private:
  [[nodiscard]] const std::vector<GpuLinks>& of_node(std::size_t rank) const {
    return gpus_[static_cast<std::size_t>(node_[rank])];
  }

  std::vector<std::vector<GpuLinks>> gpus_;  // of each node
  std::vector<int> node_;                    // of each rank
  std::vector<int> peers_;  // of each rank: the first one that reaches the same, as far as that is said
  std::vector<std::optional<std::size_t>> own_;  // place of each rank's among those of its node
};

}  // namespace tapa
