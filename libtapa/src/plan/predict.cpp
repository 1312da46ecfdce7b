#include <algorithm>
#include <stdexcept>
#include <vector>

#include "plan/cost.hpp"
#include "plan/planner.hpp"
#include "plan/predict_load.hpp"

namespace tapa {

namespace {

using namespace prediction;

/// One flat exchange between the groups of a level, or between ranks.
struct Set {
  int below = -1;       // level whose groups are the members; -1: ranks are
  int upto = 0;         // level inside which they exchange
  double block = 0;     // bytes for each pair of members
  double gathers = 0;   // share of the blocks that does not lie together before,
  double scatters = 0;  // or after
  double share = 1;     // of the ranks that take part
};

class Model {
 public:
  /// `own`: a rank of the node whose prices are meant, which has `ranks`.
  Model(const Topology& topology, const Rates& rates, double block, std::size_t own, double ranks)
      : topology_(topology), rates_(rates), block_(block), own_(own), node_(ranks) {
    for (const Level& level : topology.levels)
      size_.push_back(static_cast<double>(std::ranges::count(level.group, level.group[own])));
    std::vector<double> served(topology.nics.size());
    double busiest = 0;  // ranks that share a NIC
    for (std::size_t r = 0; r < topology.rails.size(); ++r) {
      if (topology.node_of(static_cast<int>(r)) != topology.node_of(static_cast<int>(own))) continue;
      for (const int nic : topology.rails[r]) {
        double& ranks_of_nic = served[static_cast<std::size_t>(nic)];
        ranks_of_nic += 1 / static_cast<double>(topology.rails[r].size());
        busiest = std::max(busiest, ranks_of_nic);
      }
    }
    if (busiest > 0) nics_ = std::max(1.0, node_ / busiest);
  }

  [[nodiscard]] double seconds(const Choice& choice) const {
    const Set all{-1, top(), block_};
    if (choice.algorithm == Algorithm::memory) return memory(all);
    if (choice.algorithm == Algorithm::tapa) return tapa(choice);
    if (choice.algorithm == Algorithm::leaders) return leaders(choice);
    return flat(choice.flat, all).seconds;
  }

 private:
  [[nodiscard]] int top() const { return static_cast<int>(topology_.levels.size()) - 1; }
  [[nodiscard]] const Level& level(int l) const { return topology_.levels[static_cast<std::size_t>(l)]; }
  /// Ranks of the own group of a level; of a level -1: one.
  [[nodiscard]] double size(int l) const { return l < 0 ? 1 : size_[static_cast<std::size_t>(l)]; }
  /// Groups of a level (-1: ranks) inside one of `upto`.
  [[nodiscard]] double members(int l, int upto) const {
    if (l >= upto) return 1;
    if (l < 0 || upto < topology_.nic_level) return size(upto) / size(l);
    return static_cast<double>(level(l).groups) / level(upto).groups;
  }
  /// Whether the ranks of every group of a level follow one another, so that their blocks lie together.
  [[nodiscard]] bool consecutive(int l) const { return std::ranges::is_sorted(level(l).group); }

  [[nodiscard]] Load load_of(const Set& set) const {
    Load load{std::vector<double>(size_.size()), std::vector<double>(size_.size())};
    load.node = node_;
    load.nics = nics_;
    load.active = std::min(size(set.upto), node_) * set.share;
    return load;
  }

  /// As many messages and bytes to each of the other members.
  [[nodiscard]] Load to_all(const Set& set, double messages, double bytes) const {
    Load load = load_of(set);
    for (int l = set.below + 1; l <= set.upto; ++l) {
      const double there = members(set.below, l) - members(set.below, l - 1);
      load.add(static_cast<std::size_t>(l), there * messages, there * bytes);
    }
    return load;
  }

  [[nodiscard]] Price flat(const Flat& flat, const Set& set) const {
    const double others = members(set.below, set.upto) - 1;
    if (others <= 0) return {};
    if (flat.algorithm == FlatAlgorithm::bruck) return bruck(flat.radix, set);
    Load load = to_all(set, 1, set.block);
    load.gathered = set.gathers * others * set.block;
    load.scattered = set.scatters * others * set.block;
    load.in_turns = flat.algorithm == FlatAlgorithm::pairwise;
    load.window = load.in_turns ? 0 : flat.window;
    load.crowded = !load.in_turns && flat.window == 0 && others > 1;
    return price(load, topology_, rates_);
  }

  /// A rank of each member of a set, in the order of the members.
  [[nodiscard]] std::vector<int> places(const Set& set) const {
    std::vector<int> list;
    std::vector<bool> seen(static_cast<std::size_t>(topology_.ranks));
    const std::vector<int>& outer = level(set.upto).group;
    for (std::size_t rank = 0; rank < outer.size(); ++rank) {
      if (outer[rank] != outer[own_]) continue;
      const std::size_t member =
          set.below < 0 ? rank : static_cast<std::size_t>(level(set.below).group[rank]);
      if (!seen[member]) list.push_back(static_cast<int>(rank));
      seen[member] = true;
    }
    return list;
  }

  /// One stage for each digit, one message for each value of it that occurs.
  [[nodiscard]] Price bruck(int radix, const Set& set) const {
    const std::vector<int> place = places(set);
    const std::size_t n = place.size();
    const auto wide = static_cast<std::size_t>(radix);
    Price total;
    for (std::size_t power = 1; power < n; power *= wide) {
      Load stage = load_of(set);
      for (std::size_t distance = power; distance < std::min(n, power * wide); distance += power) {
        const std::size_t rest = n % (power * wide);
        const std::size_t blocks =
            n / (power * wide) * power + (rest > distance ? std::min(rest - distance, power) : 0);
        send_on(stage, place, distance, static_cast<double>(blocks) * set.block);
      }
      // What came through a NIC in an earlier stage lies where it leaves.
      const double lies = through_nics(topology_, stage.bytes) * (1 - 1 / static_cast<double>(power));
      for (const double bytes : stage.bytes) stage.scattered += bytes;
      stage.gathered = stage.scattered - lies;
      total += price(stage, topology_, rates_);
    }
    return total;
  }

  /// A message of every member to the one so many places on, on the average of the first ones.
  void send_on(Load& load, const std::vector<int>& place, std::size_t distance, double bytes) const {
    constexpr std::size_t most = 256;
    const std::size_t looked_at = std::min(place.size(), most);
    const double share = 1 / static_cast<double>(looked_at);
    for (std::size_t i = 0; i < looked_at; ++i) {
      const int l = topology_.level_of(place[i], place[(i + distance) % place.size()]);
      load.add(static_cast<std::size_t>(l), share, share * bytes);
    }
  }

  /// Bytes as in messages, but looking at a sequence number instead of matching a message.
  [[nodiscard]] double memory(const Set& all) const {
    constexpr double look = 0.1;  // of the CPU time of a message, measured on 2 cores
    Load load = to_all(all, look, block_);
    load.asks = false;
    return price(load, topology_, rates_).seconds;
  }

  /// From the slowest phase to the fast one.
  [[nodiscard]] double tapa(const Choice& choice) const {
    const bool fast_first = choice.order == PhaseOrder::fast_first;
    Price slowest, others;
    int upto = top();
    double block = block_;
    for (std::size_t i = choice.splits.size(); i-- > 0;) {
      const int split = topology_.find_level(choice.splits[i]);
      const Price phase = between(choice, split, upto, block);
      (upto == top() ? slowest : others) += phase;
      block *= size(upto) / size(split);
      upto = split;
    }
    const double apart = block > block_ ? 1 : 0;  // more than one block of the user's for each pair
    others += flat(choice.fast, {-1, upto, block, apart, apart});
    const int split = topology_.find_level(choice.splits.back());
    const double posts =
        (size(upto) - 1) * 2 * (rates_.levels[static_cast<std::size_t>(split)].message + rates_.step);
    const double parts = std::min<double>(choice.pipeline, std::max(1.0, members(split, top()) - 1));
    double seconds = others.seconds + slowest.seconds;
    // A core posts all that is ready before it turns to what has arrived: only wires work side by side.
    if (parts > 1) seconds += (parts - 1) * posts - std::min(others.wires, slowest.wires) * (1 - 1 / parts);
    // Blocks that stay in the group travel by themselves.
    return seconds + (fast_first ? 0 : posts);
  }

  /// The phase across the groups of a level, inside one of level `upto`.
  [[nodiscard]] Price between(const Choice& choice, int split, int upto, double block) const {
    const double others = members(split, upto) - 1;
    if (others <= 0) return {};
    // What comes through a NIC or leaves through one lies in one piece, but for blocks that start or end
    // here.
    const bool whole = block <= block_;
    const double relayed = whole && split + 1 >= topology_.nic_level ? 1 / size(split) : 1;
    const double apart = !whole || !consecutive(split) ? 1 : 0;
    Set set{split, upto, block * (size(upto) - size(split)) / others, relayed, apart};
    if (choice.order == PhaseOrder::slow_first) std::swap(set.gathers, set.scatters);
    return flat(choice.slow, set);
  }

  [[nodiscard]] double leaders(const Choice& choice) const {
    const int split = topology_.find_level(choice.splits.front());
    const double q = size(split);
    const double k = choice.leaders == 0 ? q : std::min<double>(choice.leaders, q);
    const double remote = topology_.ranks - q;
    // Every member to k leaders, and back the same way; a leader is the busiest.
    Load gather = to_all({-1, split}, 1, (remote + (choice.local_direct ? 0 : q)) * block_ / k);
    gather.gathered = remote * block_;
    gather.scattered = q * remote * block_ / k;
    gather.one_way = true;
    const double inside = price(gather, topology_, rates_).seconds * (k >= q ? 1 : 2);
    const double slow = flat(choice.slow, {split, top(), q * q * block_ / k, 1, 1, k / q}).seconds;
    const double direct = choice.local_direct ? flat({}, {-1, split, block_}).seconds : 0;
    return inside + slow + direct;
  }

  const Topology& topology_;
  const Rates& rates_;
  double block_;
  std::size_t own_;
  double node_;
  double nics_ = 1;           // that these ranks load
  std::vector<double> size_;  // of that rank's group of each level
};

}  // namespace

double predict(const Topology& topology, const Rates& rates, const Choice& choice, std::size_t bytes) {
  if (choice.algorithm != Algorithm::mpi) {
    if (const std::string reason = why_not(topology, choice); !reason.empty())
      throw std::invalid_argument(reason);
  }
  std::vector<int> ranks(static_cast<std::size_t>(std::max(1, topology.nodes())));
  std::vector<std::size_t> first(ranks.size());
  for (int r = topology.ranks; r-- > 0;) {
    const auto node = static_cast<std::size_t>(topology.node_of(r));
    ++ranks[node];
    first[node] = static_cast<std::size_t>(r);
  }
  // The fullest node has most to send, the emptiest most to relay.
  const auto [least, most] = std::ranges::minmax_element(ranks);
  const auto seen_from = [&](auto node) {
    const Model model(topology, rates, static_cast<double>(bytes),
                      first[static_cast<std::size_t>(node - ranks.begin())], *node);
    return model.seconds(choice);
  };
  return *least == *most ? seen_from(most) : std::max(seen_from(most), seen_from(least));
}

}  // namespace tapa
