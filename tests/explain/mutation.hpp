/// @file
/// Small random changes to a plan, each of a kind that a bug in a planner could make.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "plan/plan.hpp"

namespace tapa::test {

/// Changes a plan at a place chosen by `random`; false when there is nothing to change there.
struct Mutation {
  const char* name;
  bool may_be_harmless;  ///< order only: a plan may stay right with less or more of it
  std::function<bool(Plan&, std::mt19937&)> apply;
};

namespace mutate {

using Deps = std::vector<std::vector<std::uint32_t>>;

inline std::size_t any(std::mt19937& random, std::size_t n) {
  return random() % n;
}

inline RankPlan& any_rank(Plan& plan, std::mt19937& random) {
  RankPlan* rank = nullptr;
  do rank = &plan.of_rank[any(random, plan.of_rank.size())];
  while (rank->steps.empty());
  return *rank;
}

inline Step& any_step(RankPlan& rank, std::mt19937& random) {
  return rank.steps[any(random, rank.steps.size())];
}

inline Segment& any_segment(RankPlan& rank, std::mt19937& random) {
  const Step& s = any_step(rank, random);
  const Range range =
      s.kind == StepKind::recv || (s.kind == StepKind::copy && random() % 2 == 0) ? s.to : s.from;
  return rank.segments[range.first + any(random, range.count)];
}

inline Deps deps_of(const RankPlan& rank) {
  Deps deps;
  for (const Step& s : rank.steps) deps.emplace_back(rank.deps_of(s).begin(), rank.deps_of(s).end());
  return deps;
}

inline void set_deps(RankPlan& rank, const Deps& deps) {
  rank.deps.clear();
  for (std::size_t i = 0; i < rank.steps.size(); ++i) {
    rank.steps[i].deps = {static_cast<std::uint32_t>(rank.deps.size()),
                          static_cast<std::uint32_t>(deps[i].size())};
    rank.deps.insert(rank.deps.end(), deps[i].begin(), deps[i].end());
  }
}

inline bool drop_step(Plan& plan, std::mt19937& random) {
  RankPlan& rank = any_rank(plan, random);
  const auto gone = static_cast<std::uint32_t>(any(random, rank.steps.size()));
  Deps deps = deps_of(rank);
  for (auto& list : deps) {
    std::erase(list, gone);
    for (std::uint32_t& dep : list) dep -= dep > gone ? 1 : 0;
  }
  deps.erase(deps.begin() + gone);
  rank.steps.erase(rank.steps.begin() + gone);
  set_deps(rank, deps);
  return true;
}

inline bool drop_dependency(Plan& plan, std::mt19937& random) {
  RankPlan& rank = any_rank(plan, random);
  Deps deps = deps_of(rank);
  auto& list = deps[any(random, deps.size())];
  if (list.empty()) return false;
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(any(random, list.size())));
  set_deps(rank, deps);
  return true;
}

inline bool add_dependency(Plan& plan, std::mt19937& random) {
  RankPlan& rank = any_rank(plan, random);
  Deps deps = deps_of(rank);
  const std::size_t step = any(random, deps.size());
  if (step == 0) return false;
  deps[step].push_back(static_cast<std::uint32_t>(any(random, step)));
  set_deps(rank, deps);
  return true;
}

/// What a rank does when it posts blocking receives in the order of its steps.
inline bool block_on_receives(Plan& plan, std::mt19937&) {
  bool changed = false;
  for (RankPlan& rank : plan.of_rank) {
    Deps deps = deps_of(rank);
    std::vector<std::uint32_t> received;
    for (std::uint32_t i = 0; i < rank.steps.size(); ++i) {
      if (rank.steps[i].kind == StepKind::recv) {
        received.push_back(i);
      } else if (!received.empty()) {
        deps[i] = received;
        changed = true;
      }
    }
    set_deps(rank, deps);
  }
  return changed;
}

inline bool shift_offset(Plan& plan, std::mt19937& random) {
  Segment& s = any_segment(any_rank(plan, random), random);
  const std::size_t by = 1 + any(random, 8);
  if (random() % 2 == 0 && s.offset >= by) {
    s.offset -= by;
  } else {
    s.offset += by;
  }
  return true;
}

inline bool change_segment_bytes(Plan& plan, std::mt19937& random) {
  any_segment(any_rank(plan, random), random).bytes += random() % 2 == 0 ? 1 : static_cast<std::size_t>(-1);
  return true;
}

/// The step and its segment agree, so only the other end tells.
inline bool shorten_message(Plan& plan, std::mt19937& random) {
  RankPlan& rank = any_rank(plan, random);
  Step& s = any_step(rank, random);
  if (s.kind == StepKind::copy) return false;
  const Range range = s.kind == StepKind::send ? s.from : s.to;
  Segment& segment = rank.segments[range.first + any(random, range.count)];
  if (segment.bytes < 2) return false;
  --segment.bytes;
  --s.bytes;
  return true;
}

inline bool change_block(Plan& plan, std::mt19937& random) {
  Segment& s = any_segment(any_rank(plan, random), random);
  const auto block = static_cast<std::int32_t>(any(random, plan.of_rank.size()));
  return std::exchange(s.block, block) != block;
}

inline bool change_buffer(Plan& plan, std::mt19937& random) {
  Segment& s = any_segment(any_rank(plan, random), random);
  const auto buffer = static_cast<Buffer>(any(random, 3));
  return std::exchange(s.buffer, buffer) != buffer;
}

inline bool swap_peers(Plan& plan, std::mt19937& random) {
  RankPlan& rank = any_rank(plan, random);
  Step& a = any_step(rank, random);
  Step& b = any_step(rank, random);
  std::swap(a.peer, b.peer);
  return a.peer != b.peer;
}

inline bool swap_contents(Plan& plan, std::mt19937& random) {
  RankPlan& rank = any_rank(plan, random);
  Step& a = any_step(rank, random);
  Step& b = any_step(rank, random);
  if (a.kind != b.kind) return false;
  if (std::ranges::equal(rank.from(a), rank.from(b)) && std::ranges::equal(rank.to(a), rank.to(b)))
    return false;
  std::swap(a.bytes, b.bytes);
  std::swap(a.from, b.from);
  std::swap(a.to, b.to);
  return true;
}

inline bool swap_segments_of_a_message(Plan& plan, std::mt19937& random) {
  RankPlan& rank = any_rank(plan, random);
  const Step& s = any_step(rank, random);
  const Range range = s.kind == StepKind::recv ? s.to : s.from;
  if (range.count < 2) return false;
  const std::size_t i = any(random, range.count - 1);
  std::swap(rank.segments[range.first + i], rank.segments[range.first + i + 1]);
  return true;
}

inline bool change_channel(Plan& plan, std::mt19937& random) {
  RankPlan& rank = any_rank(plan, random);
  Step& s = any_step(rank, random);
  if (s.kind == StepKind::copy) return false;
  for (RankPlan& r : plan.of_rank) ++r.channels;
  s.channel = rank.channels - 1;
  return true;
}

inline bool flip_direction(Plan& plan, std::mt19937& random) {
  Step& s = any_step(any_rank(plan, random), random);
  if (s.kind == StepKind::copy) return false;
  s.kind = s.kind == StepKind::send ? StepKind::recv : StepKind::send;
  std::swap(s.from, s.to);
  return true;
}

/// Both ends again, on a channel of their own, when the first time is over.
inline bool duplicate_message(Plan& plan, std::mt19937& random) {
  RankPlan& from = any_rank(plan, random);
  const auto i = static_cast<std::uint32_t>(any(random, from.steps.size()));
  if (from.steps[i].kind != StepKind::send) return false;
  RankPlan& to = plan.of_rank[static_cast<std::size_t>(from.steps[i].peer)];
  const auto end = std::find_if(to.steps.begin(), to.steps.end(), [&](const Step& s) {
    return s.kind == StepKind::recv && s.peer == from.rank && s.channel == from.steps[i].channel;
  });
  const auto j = static_cast<std::uint32_t>(end - to.steps.begin());
  for (RankPlan& r : plan.of_rank) ++r.channels;
  const auto again = [](RankPlan& rank, std::uint32_t step) {
    Deps deps = deps_of(rank);
    deps.push_back({step});
    rank.steps.push_back(rank.steps[step]);
    rank.steps.back().channel = rank.channels - 1;
    set_deps(rank, deps);
  };
  again(from, i);
  again(to, j);
  return true;
}

inline bool shrink_scratch(Plan& plan, std::mt19937& random) {
  RankPlan& rank = any_rank(plan, random);
  if (rank.scratch_bytes == 0) return false;
  --rank.scratch_bytes;
  return true;
}

}  // namespace mutate

inline const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = {
      {"drop a step", false, mutate::drop_step},
      {"drop a dependency", true, mutate::drop_dependency},
      {"add a dependency", true, mutate::add_dependency},
      {"block on receives", true, mutate::block_on_receives},
      {"shift an offset", false, mutate::shift_offset},
      {"change a segment's bytes", false, mutate::change_segment_bytes},
      {"shorten a message at one end", false, mutate::shorten_message},
      {"change a block", false, mutate::change_block},
      {"change a buffer", false, mutate::change_buffer},
      {"swap two peers", false, mutate::swap_peers},
      {"swap the contents of two steps", false, mutate::swap_contents},
      {"swap two segments of a message", false, mutate::swap_segments_of_a_message},
      {"change a channel", false, mutate::change_channel},
      {"flip a message's direction", false, mutate::flip_direction},
      {"send a message twice", false, mutate::duplicate_message},
      {"shrink scratch", false, mutate::shrink_scratch}};
  return all;
}

}  // namespace tapa::test
