/// @file
/// What another order of the ranks would change: the bytes that cross the NICs of the busiest node. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "topology/topology.hpp"

namespace tapa {

/// How ranks come to nodes.
enum class RankOrder : std::uint8_t {
  given,        ///< as they are
  consecutive,  ///< nodes are filled one after the other
  alternating,  ///< nodes get a rank each in turn
};
inline constexpr std::size_t kRankOrders = 3;

/// The node of each rank, with as many ranks on each as in `given`: nodes by rank, 0 on.
[[nodiscard]] std::vector<int> nodes_in_order(RankOrder order, std::span<const int> given);

/// Adds what a rank sends to ranks on other nodes, to what leaves its node and what comes into theirs. `sent`
/// in bytes by rank.
void add_node_bytes(std::span<const int> node, int rank, std::span<const double> sent, std::span<double> out,
                    std::span<double> in);

/// What crosses the NICs of the busiest node in one direction, and how long that takes at their rates.
struct NicLoad {
  double bytes = 0;
  double seconds = 0;
};
/// `nic_rate`: of NICs whose own is not known, in bytes per second; 0: it is not known either, and taken to
/// be high, so that less is promised. A node without NICs has one.
[[nodiscard]] NicLoad busiest(const Topology& topology, double nic_rate, std::span<const double> out,
                              std::span<const double> in);

/// A better order.
struct OrderAdvice {
  RankOrder order{};
  NicLoad now;
  NicLoad then;
  int ranks_per_node = 0;  ///< 0: nodes do not have as many
};
/// The best one by `loads`, one for each order; nothing where it would not take a fifth off the busiest
/// node's bytes and save a hundredth of the time that the program has run.
[[nodiscard]] std::optional<OrderAdvice> advise(std::span<const NicLoad, kRankOrders> loads,
                                                double run_seconds);

/// What launchers are told so that the ranks have this order.
struct LaunchOptions {
  std::string open_mpi;  ///< mpirun's
  std::string mpich;     ///< mpiexec's, and Intel MPI's; "": the host file has to say it
  std::string slurm;     ///< srun's
};
[[nodiscard]] LaunchOptions launch_options(const OrderAdvice& advice);

/// The ranks of every node where they are as many, else 0. `node`: by rank, 0 on.
[[nodiscard]] int ranks_per_node(std::span<const int> node);

}  // namespace tapa
