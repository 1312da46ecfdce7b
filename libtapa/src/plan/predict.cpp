#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "plan/cost.hpp"
#include "plan/planner.hpp"
#include "plan/route.hpp"

namespace tapa {

namespace {

/// What one stage asks of the machine, by level.
struct Load {
  std::vector<double> busiest;     // messages sent by the busiest rank
  std::vector<double> bytes;       // bytes sent by the busiest rank
  std::vector<double> node;        // messages sent by all ranks of a node together
  std::vector<double> node_bytes;  // bytes sent by all ranks of a node together
  double copied = 0;               // bytes that the busiest rank gathers and scatters
  bool crowded = false;            // all send to all at once
  double rounds = 1;               // latencies in a row

  explicit Load(std::size_t levels) : busiest(levels), bytes(levels), node(levels), node_bytes(levels) {}
};

class Model {
 public:
  Model(const Topology& topology, const Rates& rates, double block)
      : topology_(topology), rates_(rates), block_(block), levels_(topology.levels.size()) {
    for (const Level& level : topology.levels)
      size_.push_back(static_cast<double>(topology.ranks) / level.groups);
    const int node = std::clamp(topology.nic_level - 1, 0, static_cast<int>(levels_) - 1);
    ranks_per_node_ = topology.nic_level >= static_cast<int>(levels_) ? topology.ranks
                                                                      : size_[static_cast<std::size_t>(node)];
    const double nodes = std::max(1.0, topology.ranks / ranks_per_node_);
    nics_per_node_ = std::max(1.0, static_cast<double>(topology.nics.size()) / nodes);
  }

  double seconds(const Choice& choice) {
    const double ranks = topology_.ranks;
    switch (choice.algorithm) {
      case Algorithm::mpi:
      case Algorithm::linear:
        return flat(choice.flat, FlatAlgorithm::linear, -1, top(), ranks, block_, ranks);
      case Algorithm::memory:
        return memory();
      case Algorithm::pairwise:
        return flat(choice.flat, FlatAlgorithm::pairwise, -1, top(), ranks, block_, ranks);
      case Algorithm::bruck:
        return flat(choice.flat, FlatAlgorithm::bruck, -1, top(), ranks, block_, ranks);
      case Algorithm::tapa:
        return split(choice, static_cast<int>(choice.splits.size()) - 1, top(), block_);
      case Algorithm::leaders:
        return leaders(choice);
    }
    return 0;
  }

 private:
  [[nodiscard]] int top() const { return static_cast<int>(levels_) - 1; }
  [[nodiscard]] double size_at(int level) const {
    return level < 0 ? 1.0 : size_[static_cast<std::size_t>(level)];
  }

  /// Share of the peers that lie across level l-1 and inside level l, in an exchange between units of
  /// `below`-level groups inside a group of level `upto`.
  void spread(Load& load, int below, int upto, double messages, double bytes, double senders) const {
    const double unit = size_at(below);
    const double all = size_at(upto) / unit - 1;
    if (all <= 0) return;
    for (int l = below + 1; l <= upto; ++l) {
      const double share = (size_at(l) - size_at(l - 1)) / unit / all;
      const auto i = static_cast<std::size_t>(l);
      load.busiest[i] += messages * share;
      load.bytes[i] += bytes * share;
      load.node[i] += messages * share * senders;
      load.node_bytes[i] += bytes * share * senders;
    }
  }

  /// One flat exchange among `places` units of level `below` inside level `upto`; `block` bytes for each pair
  /// of places.
  double flat(const Flat& flat, FlatAlgorithm algorithm, int below, int upto, double places, double block,
              double active) const {
    if (places <= 1) return 0;
    const double senders = std::min(active, ranks_per_node_);
    Load load(levels_);
    if (algorithm != FlatAlgorithm::bruck) {
      spread(load, below, upto, places - 1, (places - 1) * block, senders);
      if (algorithm == FlatAlgorithm::pairwise) load.rounds = places - 1;
      load.crowded = algorithm == FlatAlgorithm::linear && flat.window == 0 && places > 2;
      if (flat.window > 0) load.rounds = std::ceil((places - 1) / flat.window);
      return price(load);
    }
    double total = 0;
    const int stages =
        flat_stages({FlatAlgorithm::bruck, flat.radix, 0}, static_cast<int>(std::lround(places)));
    const double digits = flat.radix - 1;
    for (int i = 0; i < stages; ++i) {
      Load stage(levels_);
      const double moved = places * digits / flat.radix * block;
      spread(stage, below, upto, digits, moved, senders);
      stage.copied = 2 * moved;
      total += price(stage);
    }
    return total;
  }

  /// Bytes as in messages, but looking at a flag instead of matching a message.
  [[nodiscard]] double memory() const {
    constexpr double flag = 0.1;  // of the CPU time of a message, measured on 2 cores
    const double others = topology_.ranks - 1;
    Load load(levels_);
    spread(load, -1, top(), others * flag, others * block_, ranks_per_node_);
    return price(load);
  }

  /// tapa at choice.splits[index], inside a group of level `upto`, moving `block` bytes for each pair of its
  /// ranks.
  double split(const Choice& choice, int index, int upto, double block) {
    if (index < 0) {
      return flat(choice.fast, choice.fast.algorithm, -1, upto, size_at(upto), block, size_at(upto));
    }
    const int level = topology_.find_level(choice.splits[static_cast<std::size_t>(index)]);
    const double q = size_at(level);
    const double n = size_at(upto) / q;
    const double fast = split(choice, index - 1, level, block * n);
    const double slow = flat(choice.slow, choice.slow.algorithm, level, upto, n, block * q, size_at(upto)) +
                        2 * block * size_at(upto) / (rates_.copy * std::min(1.0, rates_.cores_per_rank));
    const double parts = std::min<double>(choice.pipeline, std::max(1.0, n - 1));
    double time = parts > 1 ? std::max(fast, slow) + std::min(fast, slow) / parts +
                                  (parts - 1) * (q - 1) * 2 * message(level)
                            : fast + slow;
    if (choice.order == PhaseOrder::slow_first) time += (q - 1) * 2 * message(level);
    return time;
  }

  double leaders(const Choice& choice) {
    const int level = topology_.find_level(choice.splits.front());
    const double q = size_at(level);
    const double n = topology_.ranks / q;
    const double k = choice.leaders == 0 ? q : std::min<double>(choice.leaders, q);
    const double remote = topology_.ranks - q;
    const double local = choice.local_direct ? 0 : q;
    Load gather(levels_);  // every member to k leaders; the leader is the busiest
    spread(gather, -1, level, q - 1, (q - 1) * (remote + local) * block_ / k, 1);
    for (auto& count : gather.node) count *= k;
    Load scatter = gather;
    if (choice.local_direct) spread(gather, -1, level, q - 1, (q - 1) * block_, q);
    gather.copied = scatter.copied = 2 * q * remote * block_ / k;
    const double slow = flat(choice.slow, choice.slow.algorithm, level, top(), n, q * q * block_ / k,
                             k * ranks_per_node_ / q);
    return price(gather) + slow + (k >= q ? 0 : price(scatter));
  }

  [[nodiscard]] double message(int level) const {
    return rates_.levels[static_cast<std::size_t>(level)].message;
  }

  /// Latency, plus the largest of: CPU of the busiest rank, CPU of the node shared by its ranks, NICs.
  [[nodiscard]] double price(const Load& load) const {
    double latency = 0, cpu = load.copied / rates_.copy, node_cpu = 0, nic = 0, chain = 0;
    for (std::size_t l = 0; l < levels_; ++l) {
      if (load.busiest[l] <= 0) continue;
      const LevelRates& r = rates_.levels[l];
      latency = std::max(latency, r.latency);
      chain += load.bytes[l] / r.bandwidth;
      const double per_message = 2 * (r.message + rates_.step);
      const bool over_nic = static_cast<int>(l) >= topology_.nic_level;
      cpu += load.busiest[l] * per_message + (over_nic ? 0 : load.bytes[l] / r.bandwidth);
      node_cpu += load.node[l] * per_message + (over_nic ? 0 : load.node_bytes[l] / r.bandwidth);
      if (over_nic) {
        nic = std::max(nic, load.bytes[l] / r.bandwidth);
        const bool striped = load.bytes[l] / load.busiest[l] >= rates_.stripe_from;
        if (rates_.nic_bandwidth > 0) {
          const double serial = load.node_bytes[l] / rates_.nic_bandwidth + load.node[l] * rates_.nic_message;
          nic = std::max(nic, serial / (striped ? nics_per_node_ : 1));
        }
      }
    }
    if (load.crowded) nic *= 1 + rates_.incast;
    const double cores = ranks_per_node_ * std::min(1.0, rates_.cores_per_rank);
    // Rounds in a row keep one rank waiting; the others of its node use the NIC meanwhile.
    return latency + std::max({cpu, node_cpu / cores, nic, (load.rounds - 1) * latency + chain});
  }

  const Topology& topology_;
  const Rates& rates_;
  double block_;
  std::size_t levels_;
  std::vector<double> size_;  // ranks in an average group of each level
  double ranks_per_node_ = 1;
  double nics_per_node_ = 1;
};

}  // namespace

double predict(const Topology& topology, const Rates& rates, const Choice& choice, std::size_t bytes) {
  if (choice.algorithm != Algorithm::mpi) {
    if (const std::string reason = why_not(topology, choice); !reason.empty())
      throw std::invalid_argument(reason);
  }
  return Model(topology, rates, static_cast<double>(bytes)).seconds(choice);
}

}  // namespace tapa
