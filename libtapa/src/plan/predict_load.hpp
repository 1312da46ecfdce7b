/// @file
/// What a stage of an exchange asks of the machine, and what that costs.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/cost.hpp"
#include "topology/topology.hpp"

namespace tapa::prediction {

/// What one stage asks of the rank that sends most, by level.
struct Load {
  std::vector<double> messages;
  std::vector<double> bytes;
  double node = 1;        // ranks of the node
  double nics = 1;        // that these load
  double active = 1;      // of these, those that take part
  double gathered = 0;    // bytes that the rank copies before it sends
  double scattered = 0;   // bytes that it copies after it has received
  double window = 0;      // messages in flight, 0 = no bound
  bool crowded = false;   // all send to all at once
  bool in_turns = false;  // every message waits for the one before it, at both ends
  bool one_way = false;   // who sends does not receive
  bool asks = true;       // whether long messages ask their receivers before they are sent

  void add(std::size_t level, double count, double amount) {
    messages[level] += count;
    bytes[level] += amount;
  }
};

/// Predicted seconds, and how long the busiest wire works meanwhile.
struct Price {
  double seconds = 0;
  double wires = 0;
  Price& operator+=(const Price& other) {
    seconds += other.seconds;
    wires += other.wires;
    return *this;
  }
};

[[nodiscard]] Price price(const Load& load, const Topology& topology, const Rates& rates);

/// The part of something by level that is between nodes.
[[nodiscard]] double through_nics(const Topology& topology, const std::vector<double>& by_level);

}  // namespace tapa::prediction
