/// @file
/// Predicts how long a plan takes: an alpha-beta model with per-message CPU cost, per level and per NIC.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plan/choice.hpp"
#include "plan/counts.hpp"
#include "plan/plan.hpp"
#include "topology/topology.hpp"

namespace tapa {

/// Figures of one level that the model uses: the topology's, else the tuning file's, else a default by kind.
struct LevelRates {
  double latency = 0;    ///< seconds
  double bandwidth = 0;  ///< bytes per second of one pair
  double message = 0;    ///< CPU seconds per message and end
  double links = 1;      ///< of that bandwidth that a rank has to different peers
};

/// All figures of the model. Every rank must use the same ones, so that all choose the same plan.
struct Rates {
  std::vector<LevelRates> levels;  ///< one for each level of the topology
  double copy = 8e9;               ///< bytes per second of a local copy (read + write counted once)
  double nic_bandwidth = 0;        ///< bytes per second of one NIC, 0 = no NIC bound known
  double nic_message = 0;          ///< seconds a NIC needs per message
  double incast = 0;               ///< share by which bytes take longer when many ranks send to one at once
  double stripe_from = 0;     ///< bytes from which a message uses all NICs of its node; shorter ones use one
  double eager = 8192;        ///< bytes up to which a message leaves without asking the receiver
  double rendezvous = 3;      ///< latencies of a longer one: request, permission, data
  double cores_per_rank = 1;  ///< below 1 when ranks share cores: CPU costs are divided by it
  double step = 0.05e-6;  ///< CPU seconds of our own bookkeeping per step; the executor alone takes 0.01e-6
};

/// Whether messages between nodes go through kernel TCP, as far as the NICs' providers tell.
[[nodiscard]] bool over_tcp(const Topology& topology);

/// Figures from the topology where it has them, defaults elsewhere.
[[nodiscard]] Rates rates_from(const Topology& topology);

/// What was predicted, with its parts, for explain and for the choice.
struct Cost {
  double seconds = 0;                       ///< predicted time of the whole exchange
  std::vector<double> level_seconds;        ///< the part of each level (latency + bytes + messages)
  std::vector<std::size_t> level_bytes;     ///< bytes that cross each level, all ranks
  std::vector<std::size_t> level_messages;  ///< messages at each level, all ranks
  std::vector<std::size_t> nic_bytes;       ///< bytes each NIC sends
  double copy_seconds = 0;                  ///< slowest rank's gather, scatter and copy time
};

/// Prices a plan of all ranks exactly as it is written (tools, tests).
[[nodiscard]] Cost cost_of(const Plan& plan, const Topology& topology, const Rates& rates);

/// Predicted seconds of an all-to-all of `bytes` per pair under `choice`, from closed formulas: no plan is
/// made, so it is cheap enough to price every candidate at 4,096 ranks.
[[nodiscard]] double predict(const Topology& topology, const Rates& rates, const Choice& choice,
                             std::size_t bytes);

}  // namespace tapa
