#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "plan/cost.hpp"
#include "plan/planner.hpp"
#include "plan/predict_load.hpp"
#include "plan/predict_sends.hpp"
#include "plan/predict_view.hpp"
#include "plan/route.hpp"

namespace tapa {

namespace {

using namespace prediction;

class Model {
 public:
  Model(const Topology& topology, const Rates& rates, double block)
      : topology_(topology), pricing_(topology, rates), block_(block), levels_(topology.levels.size()) {
    std::vector<int> count(static_cast<std::size_t>(std::max(1, topology.nodes())));
    std::vector<int> first(count.size(), -1);
    for (int rank = 0; rank < topology.ranks; ++rank) {
      const auto node = static_cast<std::size_t>(topology.node_of(rank));
      ++count[node];
      if (first[node] < 0) first[node] = rank;
    }
    const auto [least, most] = std::minmax_element(count.begin(), count.end());
    const auto seen_from = [&](auto node) { return first[static_cast<std::size_t>(node - count.begin())]; };
    views_.push_back(view_of(topology, seen_from(most)));
    if (*least < *most) views_.push_back(view_of(topology, seen_from(least)));
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
  [[nodiscard]] double size_at(int level) const { return view_->size_at(level); }
  [[nodiscard]] double members(int level, int upto) const { return view_->members_of(level, upto); }
  [[nodiscard]] Sends from_here() const { return {topology_, *view_}; }
  [[nodiscard]] Price price(const Load& load) const { return pricing_.price(load, view_->node); }

  [[nodiscard]] Price flat(const Flat& flat, const Set& set) const {
    if (set.places <= 1) return {};
    if (flat.algorithm == FlatAlgorithm::bruck) return bruck(flat.radix, set);
    Load load(levels_);
    const double bytes = (set.places - 1) * set.block * set.out;
    from_here().spread(load, set, set.places - 1, bytes);
    load.gathered = set.gathers * bytes;
    load.scattered = set.scatters * bytes;
    if (set.below < 0 && flat.algorithm == FlatAlgorithm::linear)
      load.late = std::min(1.0, kLate + own_node_first(topology_, load));
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
    const bool in_order = consecutive(topology_, std::max(set.below, 0));
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
          from_here().send_on_of_all(stage, sends, static_cast<int>(digit * power), bytes);
        } else if (in_order) {
          from_here().send_on(stage, sends, static_cast<double>(digit * power), bytes);
        } else {
          from_here().spread(stage, sends, 1, bytes);
        }
        gathered += bytes;
        stage.scattered += bytes;
        leave = std::max(leave, through_nics(topology_, stage.messages) - messages);
        messages = through_nics(topology_, stage.messages);
      }
      const double sent = std::accumulate(stage.bytes.begin(), stage.bytes.end(), 0.0);
      const double lies =
          sent > 0 ? through_nics(topology_, stage.bytes) / sent * (1 - 1 / static_cast<double>(power)) : 0;
      stage.gathered = gathered * (1 - lies);
      follow(stages, stage, leave);
    }
    return stages.total;
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
    const Price inside = price(kept_inside(topology_, stage));
    const double wires = pricing_.network(stage);
    stages.nic = std::max(stages.nic, stages.ahead + across.head) + wires;
    double end = std::max({stages.ahead + across.seconds, stages.nic + across.tail, late + inside.seconds});
    // Those that were held up send to other nodes now, when the NIC has done most of its work.
    if (leave > stages.untouched) end = std::max(end, late + price(alone(topology_, stage)).seconds);
    stages.untouched -= leave;
    stages.ahead = stages.untouched > 0 ? stages.ahead + inside.seconds : end;
    stages.total.seconds = end;
  }

  /// Bytes as in messages, but looking at a sequence number instead of matching a message.
  [[nodiscard]] Price memory() const {
    constexpr double look = 0.1;  // of the CPU time of a message, measured on 2 cores
    const double others = topology_.ranks - 1;
    Load load(levels_);
    from_here().spread(load, {-1, top(), others + 1, block_, view_->node}, others * look, others * block_);
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
    const double posts = (size_at(level) - 1) * 2 * pricing_.message(level);
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
    const double apart = !whole || !consecutive(topology_, level) ? 1 : 0;
    const double lanes = view_->lanes[l][u];
    Set set{level, upto, n, block * q, size_at(upto)};
    set.gathers = fast_first ? relayed : apart;
    set.scatters = fast_first ? apart : relayed;
    set.even = std::min(1.0, view_->ranks[l][u] / (q * lanes));
    if (bruck) {
      look_at_members(topology_, *view_, set);
    } else {
      (fast_first ? set.out : set.in) = lanes;
    }
    return flat(choice.slow, set);
  }

  [[nodiscard]] double leaders(const Choice& choice) {
    const int level = topology_.find_level(choice.splits.front());
    const double q = size_at(level);
    const double n = members(level, top());
    const double k = choice.leaders == 0 ? q : std::min<double>(choice.leaders, q);
    const double remote = topology_.ranks - q;
    const double local = choice.local_direct ? 0 : q;
    Load gather(levels_);  // every member to k leaders; the leader is the busiest
    from_here().spread(gather, {-1, level, q, 0, k}, q - 1, (q - 1) * (remote + local) * block_ / k);
    Load scatter = gather;
    for (double& count : gather.messages) count *= k / q;
    for (double& count : scatter.received) count *= k / q;
    const double relayed = q * remote * block_ / k;
    gather.gathered = scatter.scattered = remote * block_;
    gather.scattered = scatter.gathered = relayed;
    gather.one_way = scatter.one_way = true;
    if (choice.local_direct) {
      gather.one_way = false;
      from_here().spread(gather, {-1, level, q, 0, q}, q - 1, (q - 1) * block_);
    }
    const Price slow = flat(choice.slow, {level, top(), n, q * q * block_ / k, k * view_->node / q, 1, 1});
    return price(gather).seconds + slow.seconds + (k >= q ? 0 : price(scatter).seconds);
  }

  // Simulated: pairwise order of 128 ranks on 16 nodes, and of their 8 lanes.
  static constexpr double kRanksAlike = 0.15;
  static constexpr double kLanesAlike = 0.7;
  // Simulated: share of messages that end when their NIC has done all its work, 112 and 128 ranks.
  static constexpr double kLate = 0.5;

  const Topology& topology_;
  LoadPricing pricing_;
  double block_;
  std::size_t levels_;
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
