/// @file
/// The simulated machine and what is to be run on it. It lives in the platform library, which the simulator
/// loads once, so that thousands of simulated ranks share one copy.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plan/cost.hpp"
#include "topology/topology.hpp"

namespace tapa::sim {

/// Above so many ranks the simulator is spared what costs it time that grows as their square.
constexpr int kFewRanks = 256;

/// What a simulation needs beyond the topology.
struct Parameters {
  std::size_t eager = 8192;  ///< messages up to so many bytes leave without asking the receiver
  double rendezvous = 3;     ///< latencies of a longer message: request, permission, data
  double incast =
      0;  ///< share by which a NIC takes longer for what comes in, while more messages come than it has ranks
};

/// One simulation.
struct Job {
  Topology topology;
  Parameters parameters;
  std::vector<std::string> contenders;  ///< plans as text, "mpi" for the simulator's MPI_Alltoall
  std::vector<std::size_t> bytes;       ///< of a block
  std::size_t data_limit = 0;           ///< exchanges of which all ranks' blocks take more run without data
  std::string results;                  ///< file that a line is added to for each exchange
};

/// A job on its platform.
struct World {
  Job job;
  Rates rates;
  bool eager_sends = true;  ///< whether short messages leave before their receive is posted
  bool charges_receives =
      false;             ///< whether the ranks charge short messages' receipt to the clock themselves
  bool has_data = true;  ///< of the exchange that is being run
  std::vector<double> nic_bytes;  ///< sent through each NIC in the exchange that is being run
  double busiest_nic = 0;         ///< most of them, in the exchange that was run last
  int started = 0;                ///< ranks that have begun the exchange
  int ended = 0;                  ///< ranks that have ended it
};

/// Whether cores copy what travels at a level: inside a node without devices.
[[nodiscard]] inline bool moved_by_cores(const Topology& topology, int level) {
  return level < topology.nic_level && topology.devices.empty();
}

/// CPU seconds of a message at one end.
[[nodiscard]] inline double message_seconds(const World& world, int rank, int peer, std::size_t bytes) {
  const int level = world.job.topology.level_of(rank, peer);
  const LevelRates& rates = world.rates.levels[static_cast<std::size_t>(level)];
  const bool moves = moved_by_cores(world.job.topology, level);
  return rates.message + (moves ? static_cast<double>(bytes) / rates.bandwidth / 2 : 0);
}

}  // namespace tapa::sim

/// What the ranks look up in the platform library.
extern "C" tapa::sim::World* tapa_sim_world();
