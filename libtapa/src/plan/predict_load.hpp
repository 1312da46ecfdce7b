/// @file
/// What a stage of an exchange asks of the machine, and what that costs.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/cost.hpp"
#include "topology/topology.hpp"

namespace tapa::prediction {

/// What one stage asks of the machine, by level.
struct Load {
  std::vector<double> messages;    // sent by the busiest rank
  std::vector<double> received;    // by the busiest rank
  std::vector<double> bytes;       // sent by the busiest rank
  std::vector<double> node;        // messages sent by all ranks of a node together
  std::vector<double> node_bytes;  // bytes sent by all ranks of a node together
  std::vector<double> nic;         // messages through the busiest NIC of a node
  std::vector<double> nic_bytes;   // bytes through it
  double gathered = 0;             // bytes that the busiest rank copies before it sends
  double scattered = 0;            // bytes that it copies after it has received
  bool crowded = false;            // all send to all at once
  double late = 0;        // share of messages from other nodes that end with the wires' work, at most
  bool in_turns = false;  // every message waits for the one before it, at both ends
  double alike = 0;       // share of the waiting that all ranks of a node do at the same time
  double window = 0;      // messages in flight, 0 = no bound
  bool one_way = false;   // who sends does not receive
  bool asks = true;       // whether long messages ask their receivers before they are sent

  explicit Load(std::size_t levels)
      : messages(levels),
        received(levels),
        bytes(levels),
        node(levels),
        node_bytes(levels),
        nic(levels),
        nic_bytes(levels) {}
};

/// Predicted seconds, and how long the busiest core and the busiest wire work meanwhile.
struct Price {
  double seconds = 0;
  double cpu = 0;
  double wires = 0;
  double head = 0;  // before the first message is on a wire
  double tail = 0;  // after the last one has left it
  Price& operator+=(const Price& other) {
    seconds += other.seconds;
    cpu += other.cpu;
    wires += other.wires;
    return *this;
  }
};

/// The part of something by level that is between nodes.
[[nodiscard]] double through_nics(const Topology& topology, const std::vector<double>& by_level);
/// The same messages, but all inside the node.
[[nodiscard]] Load kept_inside(const Topology& topology, Load load);
/// The same messages, but no other rank of the node sends any to other nodes.
[[nodiscard]] Load alone(const Topology& topology, Load load);

/// Prices of loads. `topology` and `rates` are borrowed.
class LoadPricing {
 public:
  LoadPricing(const Topology& topology, const Rates& rates);

  /// CPU seconds of a message at one end.
  [[nodiscard]] double message(int level) const;
  /// Sending, wires and receiving work side by side on a row of messages, each for a share of them all; a
  /// rank's core does both sending and receiving. `node_ranks`: of the node that is looked at.
  [[nodiscard]] Price price(const Load& load, double node_ranks) const;
  /// Seconds that the wires between nodes need: a rank's own one message after the other, or the busiest NIC
  /// for all that it serves.
  [[nodiscard]] double network(const Load& load) const;

 private:
  [[nodiscard]] double uplinks(const Load& load) const;

  const Topology& topology_;
  const Rates& rates_;
  std::size_t levels_;
  double node_bandwidth_;  // of all NICs of an average node
};

}  // namespace tapa::prediction
