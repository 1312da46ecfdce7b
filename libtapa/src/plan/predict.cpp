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
  std::vector<double> messages;    // sent by the busiest rank
  std::vector<double> received;    // by the busiest rank
  std::vector<double> bytes;       // sent by the busiest rank
  std::vector<double> node;        // messages sent by all ranks of a node together
  std::vector<double> node_bytes;  // bytes sent by all ranks of a node together
  double gathered = 0;             // bytes that the busiest rank copies before it sends
  double scattered = 0;            // bytes that it copies after it has received
  bool crowded = false;            // all send to all at once
  bool flat = false;               // the members are ranks, each sends straight to all others
  bool in_turns = false;           // every message waits for the one before it, at both ends
  double alike = 0;                // share of the waiting that all ranks of a node do at the same time
  double window = 0;               // messages in flight, 0 = no bound
  bool one_way = false;            // who sends does not receive
  bool asks = true;                // whether long messages ask their receivers before they are sent

  explicit Load(std::size_t levels)
      : messages(levels), received(levels), bytes(levels), node(levels), node_bytes(levels) {}
};

/// Predicted seconds, and how long the busiest core and the busiest wire work meanwhile.
struct Price {
  double seconds = 0;
  double cpu = 0;
  double wires = 0;
  Price& operator+=(const Price& other) {
    seconds += other.seconds;
    cpu += other.cpu;
    wires += other.wires;
    return *this;
  }
};

/// One flat exchange between groups, or inside one.
struct Set {
  int below = -1;         // level whose groups are the members; -1: ranks are
  int upto = 0;           // level inside which they exchange
  double places = 1;      // members
  double block = 0;       // bytes for each pair of members
  double active = 1;      // ranks of a group of `upto` that take part
  bool gathers = false;   // blocks do not lie together before,
  bool scatters = false;  // or after
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
    nics_per_node_ = std::max(1.0, ranks_per_node_ / ranks_of_busiest_nic(topology));
  }

  double seconds(const Choice& choice) {
    const double ranks = topology_.ranks;
    Flat all = choice.flat;
    switch (choice.algorithm) {
      case Algorithm::mpi:
      case Algorithm::linear:
        all.algorithm = FlatAlgorithm::linear;
        break;
      case Algorithm::memory:
        return memory().seconds;
      case Algorithm::pairwise:
        all.algorithm = FlatAlgorithm::pairwise;
        break;
      case Algorithm::bruck:
        all.algorithm = FlatAlgorithm::bruck;
        break;
      case Algorithm::tapa:
        return split(choice, static_cast<int>(choice.splits.size()) - 1, top(), block_).seconds;
      case Algorithm::leaders:
        return leaders(choice);
    }
    return flat(all, {-1, top(), ranks, block_, ranks, false, false}).seconds;
  }

 private:
  /// Where NICs serve unequal numbers of ranks, the busiest decides. Without rails all share all.
  static double ranks_of_busiest_nic(const Topology& topology) {
    if (topology.nics.empty()) return topology.ranks;
    std::vector<double> served(topology.nics.size());
    for (const std::vector<int>& rails : topology.rails) {
      for (const int nic : rails)
        served[static_cast<std::size_t>(nic)] += 1.0 / static_cast<double>(rails.size());
    }
    const double most = *std::max_element(served.begin(), served.end());
    return most > 0 ? most : static_cast<double>(topology.ranks) / static_cast<double>(topology.nics.size());
  }

  [[nodiscard]] int top() const { return static_cast<int>(levels_) - 1; }
  [[nodiscard]] double size_at(int level) const {
    return level < 0 ? 1.0 : size_[static_cast<std::size_t>(level)];
  }

  /// CPU seconds of a message at one end.
  [[nodiscard]] double message(int level) const {
    return rates_.levels[static_cast<std::size_t>(level)].message + rates_.step;
  }

  /// Whether the ranks of every group of a level follow one another, so that their blocks lie together.
  [[nodiscard]] bool consecutive(int level) const {
    const std::vector<int>& group = topology_.levels[static_cast<std::size_t>(level)].group;
    return std::is_sorted(group.begin(), group.end());
  }

  static void add(Load& load, int level, double messages, double bytes, double senders) {
    const auto i = static_cast<std::size_t>(level);
    load.messages[i] += messages;
    load.received[i] += messages;
    load.bytes[i] += bytes;
    load.node[i] += messages * senders;
    load.node_bytes[i] += bytes * senders;
  }

  /// Messages to all members alike.
  void spread(Load& load, const Set& set, double messages, double bytes) const {
    const double unit = size_at(set.below);
    const double all = size_at(set.upto) / unit - 1;
    const double senders = std::min(set.active, ranks_per_node_);
    if (all <= 0) return;
    for (int l = set.below + 1; l <= set.upto; ++l) {
      const double share = (size_at(l) - size_at(l - 1)) / unit / all;
      add(load, l, messages * share, bytes * share, senders);
    }
  }

  /// A message of every member to the one `distance` places on: where groups follow one another, near ones
  /// leave few of them.
  void send_on(Load& load, const Set& set, double distance, double bytes) const {
    const double senders = std::min(set.active, ranks_per_node_);
    const double ranks = std::min(distance, set.places - distance) * size_at(set.below);
    double inside = 0;  // share of the members whose peer is in their group of the level before
    for (int l = set.below + 1; l <= set.upto; ++l) {
      const double leave = l == set.upto ? 0 : std::min(1.0, ranks / size_at(l));
      const double share = std::max(0.0, 1 - leave - inside);
      if (share > 0) add(load, l, share, bytes * share, senders);
      inside += share;
    }
  }

  /// The same among all ranks, by looking where they are: any placement.
  void send_on_of_all(Load& load, int distance, double bytes) const {
    constexpr int most_looked_at = 512;
    const int looked_at = std::min(topology_.ranks, most_looked_at);
    std::vector<int> across(levels_);
    for (int i = 0; i < looked_at; ++i) {
      const auto rank = static_cast<int>(static_cast<long long>(i) * topology_.ranks / looked_at);
      ++across[static_cast<std::size_t>(topology_.level_of(rank, (rank + distance) % topology_.ranks))];
    }
    for (std::size_t l = 0; l < levels_; ++l) {
      const double share = static_cast<double>(across[l]) / looked_at;
      if (share > 0) add(load, static_cast<int>(l), share, bytes * share, ranks_per_node_);
    }
  }

  [[nodiscard]] Price flat(const Flat& flat, const Set& set) const {
    if (set.places <= 1) return {};
    if (flat.algorithm == FlatAlgorithm::bruck) return bruck(flat.radix, set);
    Load load(levels_);
    const double bytes = (set.places - 1) * set.block;
    spread(load, set, set.places - 1, bytes);
    load.gathered = set.gathers ? bytes : 0;
    load.scattered = set.scatters ? bytes : 0;
    load.flat = set.below < 0 && flat.algorithm == FlatAlgorithm::linear;
    load.in_turns = flat.algorithm == FlatAlgorithm::pairwise;
    load.alike = set.below >= 0 ? kLanesAlike : kRanksAlike;
    load.window = flat.algorithm == FlatAlgorithm::linear ? flat.window : 0;
    load.crowded = flat.algorithm == FlatAlgorithm::linear && flat.window == 0 && set.places > 2;
    return price(load);
  }

  /// One stage for each digit, one message for each value of it that occurs. Every message is gathered and
  /// scattered.
  [[nodiscard]] Price bruck(int radix, const Set& set) const {
    const auto places = static_cast<long long>(std::lround(set.places));
    const bool in_order = consecutive(std::max(set.below, 0));
    Price total;
    for (long long power = 1; power < places; power *= radix) {
      Load stage(levels_);
      for (long long digit = 1; digit < radix && digit * power < places; ++digit) {
        const long long cycle = power * radix;
        const long long rest = std::clamp(places % cycle - digit * power, 0LL, power);
        const double bytes = static_cast<double>(places / cycle * power + rest) * set.block;
        if (set.below < 0 && set.upto == top()) {
          send_on_of_all(stage, static_cast<int>(digit * power), bytes);
        } else if (in_order) {
          send_on(stage, set, static_cast<double>(digit * power), bytes);
        } else {
          spread(stage, set, 1, bytes);
        }
        stage.gathered += bytes;
        stage.scattered += bytes;
      }
      total += price(stage);
    }
    return total;
  }

  /// Bytes as in messages, but looking at a flag instead of matching a message.
  [[nodiscard]] Price memory() const {
    constexpr double flag = 0.1;  // of the CPU time of a message, measured on 2 cores
    const double others = topology_.ranks - 1;
    Load load(levels_);
    spread(load, {-1, top(), others + 1, block_, ranks_per_node_, false, false}, others * flag,
           others * block_);
    load.asks = false;
    return price(load);
  }

  /// tapa at choice.splits[index], inside a group of level `upto`, moving `block` bytes for each pair of its
  /// ranks.
  [[nodiscard]] Price split(const Choice& choice, int index, int upto, double block) const {
    const bool whole = block <= block_;  // one block of the user's for each pair
    if (index < 0) {
      return flat(choice.fast, {-1, upto, size_at(upto), block, size_at(upto), !whole, !whole});
    }
    const int level = topology_.find_level(choice.splits[static_cast<std::size_t>(index)]);
    const double q = size_at(level);
    const double n = size_at(upto) / q;
    const bool fast_first = choice.order == PhaseOrder::fast_first;
    const bool apart = !whole || !consecutive(level);
    const Price fast = split(choice, index - 1, level, block * n);
    const Price slow = flat(
        choice.slow, {level, upto, n, block * q, size_at(upto), fast_first || apart, !fast_first || apart});
    Price both = fast;
    both += slow;
    const double parts = std::min<double>(choice.pipeline, std::max(1.0, n - 1));
    // A core posts all that is ready before it turns to what has arrived: only wires work side by side.
    if (parts > 1)
      both.seconds +=
          (parts - 1) * (q - 1) * 2 * message(level) - std::min(fast.wires, slow.wires) * (1 - 1 / parts);
    // Blocks that stay in the group travel by themselves.
    if (!fast_first) both.seconds += (q - 1) * 2 * message(level);
    return both;
  }

  [[nodiscard]] double leaders(const Choice& choice) const {
    const int level = topology_.find_level(choice.splits.front());
    const double q = size_at(level);
    const double n = topology_.ranks / q;
    const double k = choice.leaders == 0 ? q : std::min<double>(choice.leaders, q);
    const double remote = topology_.ranks - q;
    const double local = choice.local_direct ? 0 : q;
    Load gather(levels_);  // every member to k leaders; the leader is the busiest
    spread(gather, {-1, level, q, 0, k, false, false}, q - 1, (q - 1) * (remote + local) * block_ / k);
    Load scatter = gather;
    for (double& count : gather.messages) count *= k / q;
    for (double& count : scatter.received) count *= k / q;
    const double relayed = q * remote * block_ / k;
    gather.gathered = scatter.scattered = remote * block_;
    gather.scattered = scatter.gathered = relayed;
    gather.one_way = scatter.one_way = true;
    if (choice.local_direct) {
      gather.one_way = false;
      spread(gather, {-1, level, q, 0, q, false, false}, q - 1, (q - 1) * block_);
    }
    const Price slow =
        flat(choice.slow, {level, top(), n, q * q * block_ / k, k * ranks_per_node_ / q, true, true});
    return price(gather).seconds + slow.seconds + (k >= q ? 0 : price(scatter).seconds);
  }

  /// Seconds that the wires between nodes need: a rank's own one message after the other, or the busiest NIC
  /// for all that it serves.
  [[nodiscard]] double network(const Load& load) const {
    double alone = 0, bytes = 0, messages = 0, all_bytes = 0, all_messages = 0;
    for (auto l = static_cast<std::size_t>(topology_.nic_level); l < levels_; ++l) {
      alone += load.bytes[l] / rates_.levels[l].bandwidth;
      bytes += load.bytes[l];
      messages += load.messages[l];
      all_bytes += load.node_bytes[l];
      all_messages += load.node[l];
    }
    if (messages <= 0) return 0;
    double seconds = alone;
    if (rates_.nic_bandwidth > 0) {
      const bool striped = bytes / messages >= rates_.stripe_from;
      const double serial = all_bytes / rates_.nic_bandwidth + all_messages * rates_.nic_message;
      seconds = std::max(seconds, serial / (striped ? nics_per_node_ : 1));
    }
    return seconds * (load.crowded ? 1 + rates_.incast : 1);
  }

  /// Sending, wires and receiving work side by side on a row of messages, each for a share of them all; a
  /// rank's core does both sending and receiving.
  [[nodiscard]] Price price(const Load& load) const {
    double sending = load.gathered / rates_.copy;
    double receiving = load.scattered / rates_.copy;
    double node_cpu = 0, chain = 0, latency = 0, count = 0;
    bool asks = false;
    for (std::size_t l = 0; l < levels_; ++l) {
      if (load.messages[l] <= 0) continue;
      const LevelRates& r = rates_.levels[l];
      const double of_message = message(static_cast<int>(l));
      const bool by_cores = static_cast<int>(l) < topology_.nic_level && topology_.devices.empty();
      const double moved = by_cores ? load.bytes[l] / r.bandwidth : 0;
      sending += load.messages[l] * of_message + moved / 2;
      receiving += load.received[l] * of_message + moved / 2;
      node_cpu += load.node[l] * 2 * of_message + (by_cores ? load.node_bytes[l] / r.bandwidth : 0);
      const double most = std::max(load.messages[l], load.received[l]);
      const bool asks_first = load.asks && load.bytes[l] / most > rates_.eager;
      asks = asks || asks_first;
      latency = std::max(latency, r.latency * (asks_first ? rates_.rendezvous : 1));
      if (!by_cores) chain += load.bytes[l] / (r.bandwidth * std::clamp(most, 1.0, std::max(1.0, r.links)));
      count += most;
    }
    const double cores = ranks_per_node_ * std::min(1.0, rates_.cores_per_rank);
    const double n = std::max(1.0, count);
    const double cpu =
        std::max(load.one_way ? std::max(sending, receiving) : sending + receiving, node_cpu / cores);
    const double wires = std::max(network(load), chain);
    if (load.in_turns) {
      // While a rank waits, the wires of its node serve others, as far as those do not wait alike.
      const double alone = n * latency + sending + receiving + chain;
      return {std::max(alone, wires) + std::min(alone, wires) * load.alike, cpu, wires};
    }
    double time = std::max({sending + (wires + receiving) / n, wires + (sending + receiving) / n,
                            receiving + (sending + wires) / n});
    // Messages that share a wire end late, and all at much the same time.
    if (load.flat && !asks && wires > sending)
      time = std::max(time, wires + sending / n + receiving * kLate * (1 - sending / wires));
    if (load.window > 0) time = std::max(time, (std::ceil(n / load.window) - 1) * latency + chain);
    return {std::max(latency + time, cpu), cpu, wires};
  }

  // Simulated: pairwise order of 128 ranks on 16 nodes, and of their 8 lanes.
  static constexpr double kRanksAlike = 0.15;
  static constexpr double kLanesAlike = 0.7;
  // Simulated: share of the receivers' work that comes after the wires, 112 and 128 ranks.
  static constexpr double kLate = 0.5;

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
