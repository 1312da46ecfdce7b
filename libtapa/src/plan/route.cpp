#include "plan/route.hpp"

#include <algorithm>
#include <stdexcept>

#include "plan/planner.hpp"

namespace tapa {

namespace {

int modulo(int a, int n) {
  return ((a % n) + n) % n;
}

/// Calls step(stage, from_place, to_place, distance) for each hop between two places of a set of n.
template <typename StepFn>
void flat_hops(const Flat& flat, int n, int from, int to, const StepFn& step) {
  const int distance = modulo(to - from, n);
  if (flat.algorithm != FlatAlgorithm::bruck) {
    step(0, from, to, distance);
    return;
  }
  int place = from;
  int stage = 0;
  for (long long power = 1; power <= distance; power *= flat.radix, ++stage) {
    const auto digit = static_cast<int>((distance / power) % flat.radix);
    if (digit == 0) continue;
    const auto stride = static_cast<int>(digit * power);
    const int next = modulo(place + stride, n);
    step(stage, place, next, stride);
    place = next;
  }
}

/// Calls visit(passed, distance) for every place that a block of this distance passes on its way, ends
/// excluded.
template <typename Visit>
void bruck_waypoints(int radix, int distance, const Visit& visit) {
  int passed = 0;
  for (long long power = 1; power <= distance; power *= radix) {
    passed += static_cast<int>(((distance / power) % radix) * power);
    if (passed != distance && (distance / power) % radix != 0) visit(passed);
  }
}

bool is_flat(Algorithm a) {
  return a == Algorithm::linear || a == Algorithm::pairwise || a == Algorithm::bruck;
}

}  // namespace

int flat_stages(const Flat& flat, int members) {
  if (flat.algorithm != FlatAlgorithm::bruck) return 1;
  int stages = 0;
  for (long long power = 1; power <= members - 1; power *= flat.radix) ++stages;
  return std::max(stages, 1);
}

Routes::Routes(const Topology& topology, const Choice& choice) : ranks_(topology.ranks), choice_(choice) {
  if (const std::string reason = why_not(topology, choice); !reason.empty())
    throw std::invalid_argument(reason);
  if (choice.algorithm == Algorithm::memory)
    throw std::invalid_argument("memory has no plan of messages: ranks show their blocks in shared memory");
  for (int rank = 0; rank < ranks_; ++rank) node_.push_back(topology.node_of(rank));
  innermost_ = Partition::world(ranks_);
  // Choice lists levels fast to slow; routes recur from the slowest.
  for (auto name = choice.splits.rbegin(); name != choice.splits.rend(); ++name) {
    add_split(topology, topology.find_level(*name));
  }
  if (is_flat(choice_.algorithm)) {
    choice_.flat.algorithm = choice_.algorithm == Algorithm::pairwise ? FlatAlgorithm::pairwise
                             : choice_.algorithm == Algorithm::bruck  ? FlatAlgorithm::bruck
                                                                      : FlatAlgorithm::linear;
  }
  if (!splits_.empty()) lots_ = std::clamp(choice_.pipeline, 1, std::max(1, splits_[0].most_groups - 1));
  stages_.resize(static_cast<std::size_t>(stage_count(0)));
  name_stages(topology, 0, 0, "");
}

void Routes::add_split(const Topology& topology, int level) {
  Split split;
  split.groups = Partition::of_level(topology, level);
  const Partition& outer = splits_.empty() ? Partition::world(ranks_) : splits_.back().groups;
  split.in_domain.resize(static_cast<std::size_t>(outer.groups()));
  for (int g = 0; g < split.groups.groups(); ++g) {
    const int domain = outer.group_of(split.groups.members_of(g).front());
    auto& siblings = split.in_domain[static_cast<std::size_t>(domain)];
    split.domain.push_back(domain);
    split.place.push_back(static_cast<int>(siblings.size()));
    siblings.push_back(g);
  }
  for (const auto& siblings : split.in_domain) {
    split.most_groups = std::max(split.most_groups, static_cast<int>(siblings.size()));
  }
  innermost_ = split.groups;
  splits_.push_back(std::move(split));
  split_levels_.push_back(level);
}

const Flat& Routes::innermost_flat() const {
  return is_flat(choice_.algorithm) ? choice_.flat : choice_.fast;
}

Routes::Parts Routes::parts(std::size_t depth, int base) const {
  const int fast = stage_count(depth + 1);
  const int slow = flat_stages(choice_.slow, splits_[depth].most_groups);
  if (choice_.algorithm == Algorithm::tapa && choice_.order == PhaseOrder::fast_first) {
    return {base, base + fast, base, base + fast + slow};
  }
  return {base, base + fast, base + fast + slow, base + fast + slow + fast};
}

int Routes::stage_count(std::size_t depth) const {
  if (depth == splits_.size()) return flat_stages(innermost_flat(), innermost_.largest());
  return parts(depth, 0).end;
}

void Routes::name_flat(const Flat& flat, int base, int members, const std::string& name, int level) {
  const int count = flat_stages(flat, members);
  for (int i = 0; i < count; ++i) {
    StageOrder& stage = stages_[static_cast<std::size_t>(base + i)];
    stage.lockstep = flat.algorithm == FlatAlgorithm::pairwise;
    stage.window = flat.algorithm == FlatAlgorithm::linear ? flat.window : 0;
    stage.phase = {count == 1 ? name : name + " digit " + std::to_string(i), level};
  }
}

void Routes::name_stages(const Topology& topology, std::size_t depth, int base, const std::string& prefix) {
  if (depth == splits_.size()) {
    const bool whole = splits_.empty();
    const int level = whole ? static_cast<int>(topology.levels.size()) - 1 : split_levels_.back();
    const std::string name =
        whole ? "exchange" : "fast " + topology.levels[static_cast<std::size_t>(level)].name;
    name_flat(innermost_flat(), base, innermost_.largest(), prefix + name, level);
    return;
  }
  const Parts p = parts(depth, base);
  const int level = split_levels_[depth];
  name_flat(choice_.slow, p.slow, splits_[depth].most_groups,
            prefix + "slow " + topology.levels[static_cast<std::size_t>(level)].name,
            std::min(level + 1, static_cast<int>(topology.levels.size()) - 1));
  name_stages(topology, depth + 1, p.in, prefix);
  if (p.out != p.in) name_stages(topology, depth + 1, p.out, prefix + "out ");
}

int Routes::relay(std::size_t depth, int group, int src, int dst) const {
  const Partition& p = splits_[depth].groups;
  if (choice_.algorithm == Algorithm::tapa) {
    return p.member(group, p.index_of(choice_.order == PhaseOrder::fast_first ? dst : src));
  }
  const int size = p.size_of(group);
  const int wanted = choice_.leaders == 0 ? p.largest() : choice_.leaders;
  const int lane = p.index_of(dst) % wanted;
  const int here = std::min(wanted, size);
  return p.member(group, (lane % here) * size / here);
}

void Routes::between(std::size_t depth, int from, int to, int base, int lot, std::vector<Hop>& hops) const {
  const Split& split = splits_[depth];
  const int g = split.groups.group_of(from);
  const int h = split.groups.group_of(to);
  const auto& siblings = split.in_domain[static_cast<std::size_t>(split.domain[static_cast<std::size_t>(g)])];
  const auto n = static_cast<int>(siblings.size());
  const auto rank_at = [&](int place) {
    return relay(depth, siblings[static_cast<std::size_t>(place)], from, to);
  };
  flat_hops(choice_.slow, n, split.place[static_cast<std::size_t>(g)],
            split.place[static_cast<std::size_t>(h)], [&](int stage, int a, int b, int distance) {
              hops.push_back({base + stage, lot, distance, rank_at(a), rank_at(b)});
            });
}

void Routes::inside(std::size_t depth, int from, int to, int base, int lot, std::vector<Hop>& hops) const {
  if (from == to) return;
  if (depth == splits_.size()) {
    const auto& members = innermost_.members_of(innermost_.group_of(from));
    flat_hops(innermost_flat(), static_cast<int>(members.size()), innermost_.index_of(from),
              innermost_.index_of(to), [&](int stage, int a, int b, int distance) {
                hops.push_back({base + stage, lot, distance, members[static_cast<std::size_t>(a)],
                                members[static_cast<std::size_t>(b)]});
              });
    return;
  }
  const Split& split = splits_[depth];
  const Parts p = parts(depth, base);
  const int g = split.groups.group_of(from);
  const int h = split.groups.group_of(to);
  if (g == h && (choice_.algorithm == Algorithm::tapa || choice_.local_direct)) {
    inside(depth + 1, from, to, p.in, lot, hops);
    return;
  }
  int part = lot;
  if (depth == 0 && g != h) {
    const auto n = static_cast<int>(
        split.in_domain[static_cast<std::size_t>(split.domain[static_cast<std::size_t>(g)])].size());
    const int distance =
        modulo(split.place[static_cast<std::size_t>(h)] - split.place[static_cast<std::size_t>(g)], n);
    part = (distance - 1) * lots_ / std::max(1, n - 1);
  }
  const int near = relay(depth, g, from, to);
  const int far = relay(depth, h, from, to);
  inside(depth + 1, from, near, p.in, part, hops);
  if (g != h) between(depth, from, to, p.slow, lot, hops);
  inside(depth + 1, far, to, p.out, part, hops);
}

void Routes::route(int src, int dst, std::vector<Hop>& hops) const {
  inside(0, src, dst, 0, 0, hops);
}

void Routes::flat_bruck_blocks(int rank, const std::function<void(int, int)>& visit) const {
  for (int distance = 1; distance < ranks_; ++distance) {
    visit(rank, modulo(rank + distance, ranks_));
    visit(modulo(rank - distance, ranks_), rank);
    bruck_waypoints(choice_.flat.radix, distance, [&](int passed) {
      const int src = modulo(rank - passed, ranks_);
      visit(src, modulo(src + distance, ranks_));
    });
  }
  visit(rank, rank);
}

void Routes::slow_bruck_blocks(int rank, const std::function<void(int, int)>& visit) const {
  const Split& split = splits_[0];
  const int mine = split.groups.group_of(rank);
  const auto& siblings = split.in_domain[0];
  const auto n = static_cast<int>(siblings.size());
  const int place = split.place[static_cast<std::size_t>(mine)];
  for (int distance = 1; distance < n; ++distance) {
    bruck_waypoints(choice_.slow.radix, distance, [&](int passed) {
      const int g = siblings[static_cast<std::size_t>(modulo(place - passed, n))];
      const int h = siblings[static_cast<std::size_t>(modulo(place - passed + distance, n))];
      for (int src : split.groups.members_of(g)) {
        for (int dst : split.groups.members_of(h)) {
          if (relay(0, mine, src, dst) == rank) visit(src, dst);
        }
      }
    });
  }
}

void Routes::for_blocks_near(int rank, const std::function<void(int, int)>& visit) const {
  if (splits_.empty() && choice_.flat.algorithm == FlatAlgorithm::bruck) {
    flat_bruck_blocks(rank, visit);
    return;
  }
  if (splits_.empty()) {
    for (int other = 0; other < ranks_; ++other) {
      visit(rank, other);
      if (other != rank) visit(other, rank);
    }
    return;
  }
  const Partition& groups = splits_[0].groups;
  const int mine = groups.group_of(rank);
  for (int member : groups.members_of(mine)) {
    for (int other = 0; other < ranks_; ++other) {
      visit(member, other);
      if (groups.group_of(other) != mine) visit(other, member);
    }
  }
  if (choice_.slow.algorithm == FlatAlgorithm::bruck) slow_bruck_blocks(rank, visit);
}

}  // namespace tapa
