#include "plan/predict_load.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tapa::prediction {

double through_nics(const Topology& topology, const std::vector<double>& by_level) {
  return std::accumulate(by_level.begin() + topology.nic_level, by_level.end(), 0.0);
}

Load kept_inside(const Topology& topology, Load load) {
  const auto nic = static_cast<std::size_t>(topology.nic_level);
  for (std::vector<double>* all : {&load.messages, &load.received, &load.bytes, &load.node, &load.node_bytes,
                                   &load.nic, &load.nic_bytes}) {
    (*all)[nic - 1] += through_nics(topology, *all);
    std::fill(all->begin() + static_cast<std::ptrdiff_t>(nic), all->end(), 0.0);
  }
  return load;
}

Load alone(const Topology& topology, Load load) {
  for (auto l = static_cast<std::size_t>(topology.nic_level); l < topology.levels.size(); ++l) {
    load.node[l] = load.nic[l] = load.messages[l];
    load.node_bytes[l] = load.nic_bytes[l] = load.bytes[l];
  }
  return load;
}

LoadPricing::LoadPricing(const Topology& topology, const Rates& rates)
    : topology_(topology),
      rates_(rates),
      levels_(topology.levels.size()),
      node_bandwidth_(rates.nic_bandwidth * static_cast<double>(topology.nics.size()) /
                      std::max(1, topology.nodes())) {}

double LoadPricing::message(int level) const {
  return rates_.levels[static_cast<std::size_t>(level)].message + rates_.step;
}

double LoadPricing::network(const Load& load) const {
  double seconds = 0;
  for (auto l = static_cast<std::size_t>(topology_.nic_level); l < levels_; ++l)
    seconds += load.bytes[l] / rates_.levels[l].bandwidth;
  const double messages = through_nics(topology_, load.messages);
  if (messages <= 0) return 0;
  if (rates_.nic_bandwidth > 0) {
    const bool striped = through_nics(topology_, load.bytes) / messages >= rates_.stripe_from;
    const double serial =
        through_nics(topology_, striped ? load.nic_bytes : load.node_bytes) / rates_.nic_bandwidth +
        through_nics(topology_, striped ? load.nic : load.node) * rates_.nic_message;
    seconds = std::max(seconds, serial);
  }
  seconds = std::max(seconds, uplinks(load));
  return seconds * (load.crowded ? 1 + rates_.incast : 1);
}

/// Seconds that oversubscribed uplinks of groups of nodes need.
double LoadPricing::uplinks(const Load& load) const {
  double seconds = 0;
  double leaves = 0;
  for (std::size_t l = levels_; l-- > static_cast<std::size_t>(topology_.nic_level);) {
    const double taper = topology_.levels[l].link.taper.value_or(0);
    if (taper > 0 && node_bandwidth_ > 0) seconds = std::max(seconds, leaves * taper / node_bandwidth_);
    leaves += load.node_bytes[l];
  }
  return seconds;
}

Price LoadPricing::price(const Load& load, double node_ranks) const {
  double sending = load.gathered / rates_.copy;
  double receiving = load.scattered / rates_.copy;
  double node_cpu = 0, chain = 0, latency = 0, count = 0;
  double sent_off = 0, from_others = 0;  // the cores' part of what goes through NICs
  bool asks = false;
  for (std::size_t l = 0; l < levels_; ++l) {
    if (load.messages[l] <= 0) continue;
    const LevelRates& r = rates_.levels[l];
    const double of_message = message(static_cast<int>(l));
    const bool by_cores = static_cast<int>(l) < topology_.nic_level && topology_.devices.empty();
    const double moved = by_cores ? load.bytes[l] / r.bandwidth : 0;
    const double most = std::max(load.messages[l], load.received[l]);
    const bool asks_first = load.asks && load.bytes[l] / most > rates_.eager;
    // Who asks has to answer the permission; what comes then needs no work of the receiver.
    const double answer = asks_first ? r.message : 0;
    sending += load.messages[l] * (of_message + answer) + moved / 2;
    receiving += load.received[l] * (of_message - answer) + moved / 2;
    node_cpu += load.node[l] * 2 * of_message + (by_cores ? load.node_bytes[l] / r.bandwidth : 0);
    if (static_cast<int>(l) >= topology_.nic_level) {
      sent_off += load.messages[l] * of_message;
      from_others += load.received[l] * of_message;
    }
    asks = asks || asks_first;
    latency = std::max(latency, r.latency * (asks_first ? rates_.rendezvous : 1));
    if (!by_cores) chain += load.bytes[l] / (r.bandwidth * std::clamp(most, 1.0, std::max(1.0, r.links)));
    count += most;
  }
  const double cores = node_ranks * std::min(1.0, rates_.cores_per_rank);
  const double n = std::max(1.0, count);
  const double cpu =
      std::max(load.one_way ? std::max(sending, receiving) : sending + receiving, node_cpu / cores);
  const double wires = std::max(network(load), chain);
  const double head = sending / n;
  const double tail = latency + receiving / n;
  if (load.in_turns) {
    // While a rank waits, the wires of its node serve others, as far as those do not wait alike.
    const double alone = n * latency + sending + receiving + chain;
    return {std::max(alone, wires) + std::min(alone, wires) * load.alike, cpu, wires, head, tail};
  }
  double time = std::max({sending + (wires + receiving) / n, wires + (sending + receiving) / n,
                          receiving + (sending + wires) / n});
  // Messages that share a wire end late, and all at much the same time.
  if (!asks && wires > sending) {
    const double late = std::max(0.0, 1 - sent_off / wires) * load.late * from_others;
    time = std::max(time, wires + (sending + receiving) / n + late);
  }
  if (load.window > 0) time = std::max(time, (std::ceil(n / load.window) - 1) * latency + chain);
  return {std::max(latency + time, cpu), cpu, wires, head, tail};
}

}  // namespace tapa::prediction
