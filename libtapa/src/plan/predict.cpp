#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
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

/// One flat exchange between groups, or inside one.
struct Set {
  int below = -1;                  // level whose groups are the members; -1: ranks are
  int upto = 0;                    // level inside which they exchange
  double places = 1;               // members
  double block = 0;                // bytes for each pair of members
  double active = 1;               // ranks of a group of `upto` that take part
  double gathers = 0;              // share of the blocks that does not lie together before,
  double scatters = 0;             // or after
  double out = 1;                  // messages to each other member, for the busiest rank
  double in = 1;                   // and from each
  double even = 1;                 // what a rank sends on average, of what the busiest sends
  std::vector<double> ranks = {};  // of each member, where they are unequal
  std::size_t place = 0;           // which of them is meant
};

/// The machine as the ranks of one node see it. Where nodes have unequal numbers of ranks, those of the
/// largest have most to send, those of the smallest most to relay.
struct View {
  std::vector<double> size;                 // of this node's group of each level, ranks
  std::vector<std::vector<double>> groups;  // [level][upto]: groups of a level in this node's group of upto
  std::vector<std::vector<double>> lanes;   // the same: messages to each of the other groups when relaying
  std::vector<std::vector<double>> ranks;   // the same: ranks of each of the other groups
  std::vector<int> members;                 // ranks on it
  double node = 1;                          // how many they are
  double nics = 1;                          // NICs that they load
};

class Model {
 public:
  Model(const Topology& topology, const Rates& rates, double block)
      : topology_(topology), rates_(rates), block_(block), levels_(topology.levels.size()) {
    std::vector<int> count(static_cast<std::size_t>(std::max(1, topology.nodes())));
    std::vector<int> first(count.size(), -1);
    for (int rank = 0; rank < topology.ranks; ++rank) {
      const auto node = static_cast<std::size_t>(topology.node_of(rank));
      ++count[node];
      if (first[node] < 0) first[node] = rank;
    }
    const auto [least, most] = std::minmax_element(count.begin(), count.end());
    views_.push_back(view_of(first[static_cast<std::size_t>(most - count.begin())]));
    if (*least < *most) views_.push_back(view_of(first[static_cast<std::size_t>(least - count.begin())]));
    const std::size_t nodes = count.size();
    node_bandwidth_ =
        rates.nic_bandwidth * static_cast<double>(topology.nics.size()) / static_cast<double>(nodes);
    view_ = &views_.front();
  }

  double seconds(const Choice& choice) {
    Flat all = choice.flat;
    switch (choice.algorithm) {
      case Algorithm::mpi:
      case Algorithm::linear:
        all.algorithm = FlatAlgorithm::linear;
        break;
      case Algorithm::memory:
        return worst([&] { return memory(); }).seconds;
      case Algorithm::pairwise:
        all.algorithm = FlatAlgorithm::pairwise;
        break;
      case Algorithm::bruck:
        all.algorithm = FlatAlgorithm::bruck;
        break;
      case Algorithm::tapa:
        return worst([&] { return tapa(choice); }).seconds;
      case Algorithm::leaders:
        return leaders(choice);
    }
    const double ranks = topology_.ranks;
    return worst([&] { return flat(all, {-1, top(), ranks, block_, ranks}); }).seconds;
  }

 private:
  /// What the ranks of the node of `seen_from` see.
  [[nodiscard]] View view_of(int seen_from) const {
    View v;
    const auto own = static_cast<std::size_t>(seen_from);
    v.groups.assign(levels_, std::vector<double>(levels_, 1));
    v.lanes = v.ranks = v.groups;
    for (std::size_t l = 0; l < levels_; ++l) {
      const Level& level = topology_.levels[l];
      std::vector<double> ranks(static_cast<std::size_t>(level.groups));
      for (const int g : level.group) ++ranks[static_cast<std::size_t>(g)];
      v.size.push_back(ranks[static_cast<std::size_t>(level.group[own])]);
      for (std::size_t upto = l + 1; upto < levels_; ++upto) count_groups(v, l, upto, own, ranks);
    }
    const int node = topology_.node_of(seen_from);
    std::map<int, double> served;
    for (int rank = 0; rank < topology_.ranks; ++rank) {
      if (topology_.node_of(rank) != node) continue;
      v.members.push_back(rank);
      if (topology_.rails.empty()) continue;
      const std::vector<int>& rails = topology_.rails[static_cast<std::size_t>(rank)];
      for (const int nic : rails) served[nic] += 1.0 / static_cast<double>(rails.size());
    }
    v.node = static_cast<double>(v.members.size());
    double busiest = 0;
    for (const auto& [nic, ranks] : served) busiest = std::max(busiest, ranks);
    if (busiest > 0) v.nics = std::max(1.0, v.node / busiest);
    return v;
  }

  /// The groups of a level inside one of `upto`, and what they mean for a rank that relays for its own group.
  void count_groups(View& v, std::size_t l, std::size_t upto, std::size_t own,
                    const std::vector<double>& ranks) const {
    const std::vector<int>& inner = topology_.levels[l].group;
    const std::vector<int>& outer = topology_.levels[upto].group;
    std::vector<bool> seen(ranks.size());
    double others = 0, lanes = 0, all = 0;
    for (std::size_t rank = 0; rank < inner.size(); ++rank) {
      const auto g = static_cast<std::size_t>(inner[rank]);
      if (outer[rank] != outer[own] || seen[g]) continue;
      seen[g] = true;
      if (inner[rank] == inner[own]) continue;
      ++others;
      all += ranks[g];
      lanes += std::ceil(ranks[g] / v.size[l]);
    }
    v.groups[l][upto] = others + 1;
    if (others <= 0) return;
    v.lanes[l][upto] = lanes / others;
    v.ranks[l][upto] = all / others;
  }

  /// The longest that any view gives.
  template <typename Cost>
  Price worst(const Cost& cost) {
    Price longest;
    for (const View& view : views_) {
      view_ = &view;
      const Price price = cost();
      if (price.seconds > longest.seconds) longest = price;
    }
    view_ = &views_.front();
    return longest;
  }

  [[nodiscard]] int top() const { return static_cast<int>(levels_) - 1; }
  [[nodiscard]] double size_at(int level) const {
    return level < 0 ? 1.0 : view_->size[static_cast<std::size_t>(level)];
  }
  /// Groups of a level (-1: ranks) inside one of `upto`.
  [[nodiscard]] double members(int level, int upto) const {
    if (level >= upto) return 1;
    if (level < 0) return size_at(upto);
    return view_->groups[static_cast<std::size_t>(level)][static_cast<std::size_t>(upto)];
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

  /// What the busiest rank sends and receives; `senders` times that is what the node's ranks send together,
  /// and `sharing` times that goes through the busiest NIC.
  static void add(Load& load, int level, double messages, double received, double bytes, double senders,
                  double sharing) {
    const auto i = static_cast<std::size_t>(level);
    load.messages[i] += messages;
    load.received[i] += received;
    load.bytes[i] += bytes;
    load.node[i] += messages * senders;
    load.node_bytes[i] += bytes * senders;
    load.nic[i] += messages * sharing;
    load.nic_bytes[i] += bytes * sharing;
  }

  /// Messages to all members alike.
  void spread(Load& load, const Set& set, double messages, double bytes) const {
    const double active = std::min(set.active, view_->node);
    const double senders = active * set.even;
    // Those that have most to send may well share a NIC.
    const double sharing = view_->nics > 1 ? active / view_->nics : senders;
    const double all = members(set.below, set.upto) - 1;
    if (all <= 0) return;
    for (int l = set.below + 1; l <= set.upto; ++l) {
      const double share = (members(set.below, l) - members(set.below, l - 1)) / all;
      add(load, l, messages * share * set.out, messages * share * set.in, bytes * share, senders, sharing);
    }
  }

  /// A message of every member to the one `distance` places on: where groups follow one another, near ones
  /// leave few of them.
  void send_on(Load& load, const Set& set, double distance, double bytes) const {
    const double ranks = std::min(distance, set.places - distance) * size_at(set.below);
    double inside = 0;  // share of the members whose peer is in their group of the level before
    for (int l = set.below + 1; l <= set.upto; ++l) {
      const double leave = l == set.upto ? 0 : std::min(1.0, ranks / size_at(l));
      const double share = std::max(0.0, 1 - leave - inside);
      add_share(load, l, share, set, bytes);
      inside += share;
    }
  }

  /// Messages of a share of the ranks. They are neighbours, so those of a NIC are all among them, or none.
  void add_share(Load& load, int level, double share, const Set& set, double bytes) const {
    if (share <= 0) return;
    const double active = std::min(set.active, view_->node);
    const double sharing =
        view_->nics > 1 ? std::min(active / view_->nics / share, active) : active * set.even;
    add(load, level, share * set.out, share * set.in, share * bytes, active * set.even, sharing);
  }

  /// The same among all ranks, by looking where they are: any placement.
  void send_on_of_all(Load& load, const Set& set, int distance, double bytes) const {
    constexpr int most_looked_at = 512;
    const int looked_at = std::min(topology_.ranks, most_looked_at);
    const auto level_from = [&](int rank) {
      return topology_.level_of(rank, (rank + distance) % topology_.ranks);
    };
    std::vector<double> across(levels_);
    for (int i = 0; i < looked_at; ++i) {
      const auto rank = static_cast<int>(static_cast<long long>(i) * topology_.ranks / looked_at);
      across[static_cast<std::size_t>(level_from(rank))] += 1.0 / looked_at;
    }
    // Of unequal nodes, by what leaves this one.
    const auto leaving =
        static_cast<double>(std::count_if(view_->members.begin(), view_->members.end(),
                                          [&](int rank) { return level_from(rank) >= topology_.nic_level; }));
    const double leave = leaving / view_->node;
    const double average = through_nics(across);
    for (std::size_t l = 0; l < levels_; ++l) {
      const bool by_nic = static_cast<int>(l) >= topology_.nic_level;
      const double of_all = by_nic ? average : 1 - average;
      const double here = by_nic ? leave : 1 - leave;
      if (of_all > 0) add_share(load, static_cast<int>(l), across[l] / of_all * here, set, bytes);
    }
  }

  /// Where ranks follow one another on their nodes they send to their own node first: the share of it.
  [[nodiscard]] double own_node_first(const Load& load) const {
    const double all = std::accumulate(load.messages.begin(), load.messages.end(), 0.0);
    const bool in_order = topology_.nic_level > 0 && consecutive(topology_.nic_level - 1);
    return in_order && all > 0 ? 1 - through_nics(load.messages) / all : 0;
  }

  [[nodiscard]] Price flat(const Flat& flat, const Set& set) const {
    if (set.places <= 1) return {};
    if (flat.algorithm == FlatAlgorithm::bruck) return bruck(flat.radix, set);
    Load load(levels_);
    const double bytes = (set.places - 1) * set.block * set.out;
    spread(load, set, set.places - 1, bytes);
    load.gathered = set.gathers * bytes;
    load.scattered = set.scatters * bytes;
    if (set.below < 0 && flat.algorithm == FlatAlgorithm::linear)
      load.late = std::min(1.0, kLate + own_node_first(load));
    load.in_turns = flat.algorithm == FlatAlgorithm::pairwise;
    load.alike = set.below >= 0 ? kLanesAlike : kRanksAlike;
    load.window = flat.algorithm == FlatAlgorithm::linear ? flat.window : 0;
    load.crowded = flat.algorithm == FlatAlgorithm::linear && flat.window == 0 && set.places > 2;
    return price(load);
  }

  /// One stage for each digit, one message for each value of it that occurs. Every message is scattered; what
  /// goes through a NIC lies where it leaves, but for the blocks that start here.
  [[nodiscard]] Price bruck(int radix, const Set& set) const {
    const auto places = static_cast<long long>(std::lround(set.places));
    const bool in_order = consecutive(std::max(set.below, 0));
    Stages stages;
    for (long long power = 1; power < places; power *= radix) {
      Load stage(levels_);
      stage.late = kLate;
      double gathered = 0;
      double messages = 0;
      double leave = 0;  // share of the ranks whose farthest message leaves the node
      for (long long digit = 1; digit < radix && digit * power < places; ++digit) {
        Set sends = set;
        const double bytes = passed_on(sends, radix, power, digit);
        if (set.below < 0 && set.upto == top()) {
          send_on_of_all(stage, sends, static_cast<int>(digit * power), bytes);
        } else if (in_order) {
          send_on(stage, sends, static_cast<double>(digit * power), bytes);
        } else {
          spread(stage, sends, 1, bytes);
        }
        gathered += bytes;
        stage.scattered += bytes;
        leave = std::max(leave, through_nics(stage.messages) - messages);
        messages = through_nics(stage.messages);
      }
      const double sent = std::accumulate(stage.bytes.begin(), stage.bytes.end(), 0.0);
      const double lies =
          sent > 0 ? through_nics(stage.bytes) / sent * (1 - 1 / static_cast<double>(power)) : 0;
      stage.gathered = gathered * (1 - lies);
      follow(stages, stage, leave);
    }
    return stages.total;
  }

  /// Bytes that the busiest rank passes on in one digit of a stage. Where members have unequal numbers of
  /// ranks, a small one has a message for each lane of a large one; sets `out`, `in` and `even`.
  [[nodiscard]] static double passed_on(Set& set, long long radix, long long power, long long digit) {
    const auto places = static_cast<long long>(std::lround(set.places));
    const long long cycle = power * radix;
    if (set.ranks.empty()) {
      const long long rest = std::clamp(places % cycle - digit * power, 0LL, power);
      return static_cast<double>(places / cycle * power + rest) * set.block;
    }
    const double own = set.ranks[set.place];
    const auto ranks_at = [&](long long away) {
      return set
          .ranks[static_cast<std::size_t>((static_cast<long long>(set.place) + away + places) % places)];
    };
    double blocks = 0, of_all = 0;
    double most_to = 0, most_from = 0;  // ranks of the groups that what goes out is for, and what comes in
    for (long long distance = digit * power; distance < places; ++distance) {
      if (distance / power % radix != digit) continue;
      const long long passed = distance % power;
      const double to = ranks_at(distance - passed);
      blocks += ranks_at(-passed) * std::ceil(to / own);
      of_all += ranks_at(-passed) * to;
      most_to = std::max(most_to, to);
      most_from = std::max(most_from, ranks_at(distance - passed - digit * power));
    }
    set.even = of_all / (blocks * own);
    set.out = std::ceil(std::min(ranks_at(digit * power), most_to) / own);
    set.in = std::ceil(std::min(ranks_at(-digit * power), most_from) / own);
    return blocks * set.block / own;
  }

  /// Stages in a row. A rank that a message from another node holds up in one of them holds up those that it
  /// sends to, but where most messages stay in the node, the others go on with the next stage meanwhile.
  struct Stages {
    Price total;           // until all are done
    double ahead = 0;      // when those are done that wait for nobody from another node
    double untouched = 1;  // their share
    double nic = 0;        // when the node's NIC has sent what the stages so far gave it
  };

  void follow(Stages& stages, const Load& stage, double leave) const {
    const Price across = price(stage);
    const double late = stages.total.seconds;
    stages.total += across;
    if (stages.untouched <= 0 || leave <= 0) {
      stages.ahead = stages.untouched <= 0 ? stages.total.seconds : stages.ahead + across.seconds;
      return;
    }
    const Price inside = price(kept_inside(stage));
    const double wires = network(stage);
    stages.nic = std::max(stages.nic, stages.ahead + across.head) + wires;
    double end = std::max({stages.ahead + across.seconds, stages.nic + across.tail, late + inside.seconds});
    // Those that were held up send to other nodes now, when the NIC has done most of its work.
    if (leave > stages.untouched) end = std::max(end, late + price(alone(stage)).seconds);
    stages.untouched -= leave;
    stages.ahead = stages.untouched > 0 ? stages.ahead + inside.seconds : end;
    stages.total.seconds = end;
  }

  /// The same messages, but all inside the node.
  [[nodiscard]] Load kept_inside(Load load) const {
    const auto nic = static_cast<std::size_t>(topology_.nic_level);
    for (std::vector<double>* all : {&load.messages, &load.received, &load.bytes, &load.node,
                                     &load.node_bytes, &load.nic, &load.nic_bytes}) {
      (*all)[nic - 1] += through_nics(*all);
      std::fill(all->begin() + static_cast<std::ptrdiff_t>(nic), all->end(), 0.0);
    }
    return load;
  }

  /// The same messages, but no other rank of the node sends any to other nodes.
  [[nodiscard]] Load alone(Load load) const {
    for (auto l = static_cast<std::size_t>(topology_.nic_level); l < levels_; ++l) {
      load.node[l] = load.nic[l] = load.messages[l];
      load.node_bytes[l] = load.nic_bytes[l] = load.bytes[l];
    }
    return load;
  }

  /// The part of something by level that is between nodes.
  [[nodiscard]] double through_nics(const std::vector<double>& by_level) const {
    return std::accumulate(by_level.begin() + topology_.nic_level, by_level.end(), 0.0);
  }

  /// Bytes as in messages, but looking at a flag instead of matching a message.
  [[nodiscard]] Price memory() const {
    constexpr double flag = 0.1;  // of the CPU time of a message, measured on 2 cores
    const double others = topology_.ranks - 1;
    Load load(levels_);
    spread(load, {-1, top(), others + 1, block_, view_->node}, others * flag, others * block_);
    load.asks = false;
    return price(load);
  }

  /// As one node sees it: a small one relays more, but has less to exchange inside.
  [[nodiscard]] Price tapa(const Choice& choice) const {
    const std::vector<Price> phases = phases_of(choice);
    Price both;
    for (std::size_t i = 0; i + 1 < phases.size(); ++i) both += phases[i];
    const double side_by_side = std::min(both.wires, phases.back().wires);
    both += phases.back();
    const int level = topology_.find_level(choice.splits.back());
    const double posts = (size_at(level) - 1) * 2 * message(level);
    const double parts = std::min<double>(choice.pipeline, std::max(1.0, members(level, top()) - 1));
    // A core posts all that is ready before it turns to what has arrived: only wires work side by side.
    if (parts > 1) both.seconds += (parts - 1) * posts - side_by_side * (1 - 1 / parts);
    // Blocks that stay in the group travel by themselves.
    if (choice.order == PhaseOrder::slow_first) both.seconds += posts;
    return both;
  }

  /// Fast to slow, seen from one node.
  [[nodiscard]] std::vector<Price> phases_of(const Choice& choice) const {
    std::vector<Price> phases(choice.splits.size() + 1);
    int upto = top();
    double block = block_;
    for (std::size_t i = choice.splits.size(); i-- > 0;) {
      const int level = topology_.find_level(choice.splits[i]);
      phases[i + 1] = between(choice, level, upto, block);
      block *= 1 + (members(level, upto) - 1) *
                       view_->lanes[static_cast<std::size_t>(level)][static_cast<std::size_t>(upto)];
      upto = level;
    }
    const double apart = block > block_ ? 1 : 0;  // more than one block of the user's for each pair
    phases[0] = flat(choice.fast, {-1, upto, size_at(upto), block, size_at(upto), apart, apart});
    return phases;
  }

  /// The phase across the groups of a level, inside one of level `upto`.
  [[nodiscard]] Price between(const Choice& choice, int level, int upto, double block) const {
    const auto l = static_cast<std::size_t>(level);
    const auto u = static_cast<std::size_t>(upto);
    const double q = size_at(level);
    const double n = members(level, upto);
    const bool bruck = choice.slow.algorithm == FlatAlgorithm::bruck;
    const bool fast_first = choice.order == PhaseOrder::fast_first;
    const bool whole = block <= block_;
    // What comes through a NIC or leaves through one lies in one piece, but for blocks that start or end
    // here.
    const double relayed = whole && level + 1 >= topology_.nic_level ? 1 / q : 1;
    const double apart = !whole || !consecutive(level) ? 1 : 0;
    const double lanes = view_->lanes[l][u];
    Set set{level, upto, n, block * q, size_at(upto)};
    set.gathers = fast_first ? relayed : apart;
    set.scatters = fast_first ? apart : relayed;
    set.even = std::min(1.0, view_->ranks[l][u] / (q * lanes));
    if (bruck) {
      look_at_members(set);
    } else {
      (fast_first ? set.out : set.in) = lanes;
    }
    return flat(choice.slow, set);
  }

  /// How many ranks the groups of a set have, where they are unequal.
  void look_at_members(Set& set) const {
    const std::vector<int>& inner = topology_.levels[static_cast<std::size_t>(set.below)].group;
    const std::vector<int>& outer = topology_.levels[static_cast<std::size_t>(set.upto)].group;
    const auto own = static_cast<std::size_t>(view_->members.front());
    std::vector<int> place(
        static_cast<std::size_t>(topology_.levels[static_cast<std::size_t>(set.below)].groups), -1);
    std::vector<double> ranks;
    for (std::size_t rank = 0; rank < inner.size(); ++rank) {
      if (outer[rank] != outer[own]) continue;
      int& at = place[static_cast<std::size_t>(inner[rank])];
      if (at < 0) {
        at = static_cast<int>(ranks.size());
        ranks.push_back(0);
      }
      ++ranks[static_cast<std::size_t>(at)];
    }
    const auto [least, most] = std::minmax_element(ranks.begin(), ranks.end());
    if (*least == *most) return;
    set.place = static_cast<std::size_t>(place[static_cast<std::size_t>(inner[own])]);
    set.ranks = std::move(ranks);
  }

  [[nodiscard]] double leaders(const Choice& choice) {
    const int level = topology_.find_level(choice.splits.front());
    const double q = size_at(level);
    const double n = members(level, top());
    const double k = choice.leaders == 0 ? q : std::min<double>(choice.leaders, q);
    const double remote = topology_.ranks - q;
    const double local = choice.local_direct ? 0 : q;
    Load gather(levels_);  // every member to k leaders; the leader is the busiest
    spread(gather, {-1, level, q, 0, k}, q - 1, (q - 1) * (remote + local) * block_ / k);
    Load scatter = gather;
    for (double& count : gather.messages) count *= k / q;
    for (double& count : scatter.received) count *= k / q;
    const double relayed = q * remote * block_ / k;
    gather.gathered = scatter.scattered = remote * block_;
    gather.scattered = scatter.gathered = relayed;
    gather.one_way = scatter.one_way = true;
    if (choice.local_direct) {
      gather.one_way = false;
      spread(gather, {-1, level, q, 0, q}, q - 1, (q - 1) * block_);
    }
    const Price slow = flat(choice.slow, {level, top(), n, q * q * block_ / k, k * view_->node / q, 1, 1});
    return price(gather).seconds + slow.seconds + (k >= q ? 0 : price(scatter).seconds);
  }

  /// Seconds that the wires between nodes need: a rank's own one message after the other, or the busiest NIC
  /// for all that it serves.
  [[nodiscard]] double network(const Load& load) const {
    double seconds = 0;
    for (auto l = static_cast<std::size_t>(topology_.nic_level); l < levels_; ++l)
      seconds += load.bytes[l] / rates_.levels[l].bandwidth;
    const double messages = through_nics(load.messages);
    if (messages <= 0) return 0;
    if (rates_.nic_bandwidth > 0) {
      const bool striped = through_nics(load.bytes) / messages >= rates_.stripe_from;
      const double serial = through_nics(striped ? load.nic_bytes : load.node_bytes) / rates_.nic_bandwidth +
                            through_nics(striped ? load.nic : load.node) * rates_.nic_message;
      seconds = std::max(seconds, serial);
    }
    seconds = std::max(seconds, uplinks(load));
    return seconds * (load.crowded ? 1 + rates_.incast : 1);
  }

  /// Seconds that oversubscribed uplinks of groups of nodes need.
  [[nodiscard]] double uplinks(const Load& load) const {
    double seconds = 0;
    double leaves = 0;
    for (std::size_t l = levels_; l-- > static_cast<std::size_t>(topology_.nic_level);) {
      const double taper = topology_.levels[l].link.taper.value_or(0);
      if (taper > 0 && node_bandwidth_ > 0) seconds = std::max(seconds, leaves * taper / node_bandwidth_);
      leaves += load.node_bytes[l];
    }
    return seconds;
  }

  /// Sending, wires and receiving work side by side on a row of messages, each for a share of them all; a
  /// rank's core does both sending and receiving.
  [[nodiscard]] Price price(const Load& load) const {
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
    const double cores = view_->node * std::min(1.0, rates_.cores_per_rank);
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

  // Simulated: pairwise order of 128 ranks on 16 nodes, and of their 8 lanes.
  static constexpr double kRanksAlike = 0.15;
  static constexpr double kLanesAlike = 0.7;
  // Simulated: share of messages that end when their NIC has done all its work, 112 and 128 ranks.
  static constexpr double kLate = 0.5;

  const Topology& topology_;
  const Rates& rates_;
  double block_;
  std::size_t levels_;
  double node_bandwidth_ = 0;  // of all NICs of an average node
  std::vector<View> views_;
  const View* view_ = nullptr;  // that prices are meant for
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
