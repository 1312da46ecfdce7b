#include "plan/predict_load.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tapa::prediction {

namespace {

/// Seconds that oversubscribed uplinks of groups of nodes need.
double uplinks(const Load& load, const Topology& topology, const Rates& rates) {
  const double bandwidth =
      rates.nic_bandwidth * static_cast<double>(topology.nics.size()) / std::max(1, topology.nodes());
  double seconds = 0;
  double leaves = 0;  // bytes
  for (std::size_t l = topology.levels.size(); l-- > static_cast<std::size_t>(topology.nic_level);) {
    const double taper = topology.levels[l].link.taper.value_or(0);
    if (bandwidth > 0) seconds = std::max(seconds, leaves * load.active * taper / bandwidth);
    leaves += load.bytes[l];
  }
  return seconds;
}

/// Seconds that the wires between nodes need.
double network(const Load& load, const Topology& topology, const Rates& rates) {
  const double messages = through_nics(topology, load.messages);
  const double bytes = through_nics(topology, load.bytes);
  if (messages <= 0) return 0;
  double pair = 0;
  for (auto l = static_cast<std::size_t>(topology.nic_level); l < load.bytes.size(); ++l)
    pair += load.bytes[l] / rates.levels[l].bandwidth;
  double nic = 0;
  if (rates.nic_bandwidth > 0) {
    const double nics = bytes / messages >= rates.stripe_from ? load.nics : 1;
    nic = std::max(1.0, load.active / nics) * (bytes / rates.nic_bandwidth + messages * rates.nic_message);
  }
  return std::max({pair, nic, uplinks(load, topology, rates)}) * (load.crowded ? 1 + rates.incast : 1);
}

}  // namespace

double through_nics(const Topology& topology, const std::vector<double>& by_level) {
  return std::accumulate(by_level.begin() + topology.nic_level, by_level.end(), 0.0);
}

Price price(const Load& load, const Topology& topology, const Rates& rates) {
  double sending = load.gathered / rates.copy;
  double receiving = load.scattered / rates.copy;
  double chain = 0, latency = 0, count = 0;
  for (std::size_t l = 0; l < load.messages.size(); ++l) {
    const double messages = load.messages[l];
    if (messages <= 0) continue;
    const LevelRates& r = rates.levels[l];
    const double of_message = r.message + rates.step;
    const bool by_cores = static_cast<int>(l) < topology.nic_level && topology.devices.empty();
    const double moved = by_cores ? load.bytes[l] / r.bandwidth : 0;
    const bool asks = load.asks && load.bytes[l] / messages > rates.eager;
    // Who asks has to answer the permission; what comes then needs no work of the receiver.
    const double answer = asks ? r.message : 0;
    sending += messages * (of_message + answer) + moved / 2;
    receiving += messages * (of_message - answer) + moved / 2;
    latency = std::max(latency, r.latency * (asks ? rates.rendezvous : 1));
    if (!by_cores) chain += load.bytes[l] / (r.bandwidth * std::clamp(messages, 1.0, std::max(1.0, r.links)));
    count += messages;
  }
  const double n = std::max(1.0, count);
  const double wires = std::max(network(load, topology, rates), chain);
  if (load.in_turns) {
    // While a rank waits, the wires of its node serve others, but for those that wait alike: that share was
    // simulated for 128 ranks on 16 nodes.
    constexpr double alike = 0.15;
    const double alone = n * latency + sending + receiving + chain;
    return {std::max(alone, wires) + std::min(alone, wires) * alike, wires};
  }
  const double cores = std::min(1.0, rates.cores_per_rank * load.node / load.active);
  const double cpu = (load.one_way ? std::max(sending, receiving) : sending + receiving) / cores;
  double time = std::max({sending + (wires + receiving) / n, wires + (sending + receiving) / n,
                          receiving + (sending + wires) / n});
  if (load.window > 0) time = std::max(time, (std::ceil(n / load.window) - 1) * latency + chain);
  return {std::max(latency + time, cpu), wires};
}

}  // namespace tapa::prediction
