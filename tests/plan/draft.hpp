/// @file
/// Writes plans by hand, step by step: independent of the planners, so that the verifier can be tested on its
/// own.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/counts.hpp"
#include "plan/plan.hpp"

namespace tapa::test {

inline Segment sent(int dst, std::size_t bytes, std::size_t offset = 0) {
  return {Buffer::send, dst, offset, bytes};
}
inline Segment received(int src, std::size_t bytes, std::size_t offset = 0) {
  return {Buffer::recv, src, offset, bytes};
}
inline Segment scratch(std::size_t offset, std::size_t bytes) {
  return {Buffer::scratch, 0, offset, bytes};
}

class Draft {
 public:
  using Segments = std::vector<Segment>;
  using Steps = std::vector<std::uint32_t>;

  explicit Draft(int ranks, int channels = 1) {
    plan.ranks = ranks;
    plan.phases = {{"only", 0}};
    plan.of_rank.resize(static_cast<std::size_t>(ranks));
    for (int r = 0; r < ranks; ++r) {
      rank(r).rank = r;
      rank(r).ranks = ranks;
      rank(r).channels = channels;
    }
  }

  RankPlan& rank(int r) { return plan.of_rank[static_cast<std::size_t>(r)]; }
  Step& step(int r, std::size_t i) { return rank(r).steps[i]; }
  Segment& from(int r, std::size_t i, std::size_t n = 0) {
    return rank(r).segments[step(r, i).from.first + n];
  }
  Segment& to(int r, std::size_t i, std::size_t n = 0) { return rank(r).segments[step(r, i).to.first + n]; }

  std::uint32_t send(int r, int peer, int channel, const Segments& from, const Steps& deps = {}) {
    return add(r, StepKind::send, peer, channel, from, {}, deps);
  }
  std::uint32_t recv(int r, int peer, int channel, const Segments& to, const Steps& deps = {}) {
    return add(r, StepKind::recv, peer, channel, {}, to, deps);
  }
  std::uint32_t copy(int r, const Segments& from, const Segments& to, const Steps& deps = {}) {
    return add(r, StepKind::copy, r, 0, from, to, deps);
  }

  Plan plan;

 private:
  std::uint32_t add(int r, StepKind kind, int peer, int channel, const Segments& from, const Segments& to,
                    const Steps& deps) {
    RankPlan& p = rank(r);
    Step s;
    s.kind = kind;
    s.peer = peer;
    s.channel = channel;
    for (const Segment& segment : kind == StepKind::recv ? to : from) s.bytes += segment.bytes;
    s.from = pool(p.segments, from);
    s.to = pool(p.segments, to);
    s.deps = pool(p.deps, deps);
    p.steps.push_back(s);
    return static_cast<std::uint32_t>(p.steps.size() - 1);
  }

  template <typename T>
  static Range pool(std::vector<T>& all, const std::vector<T>& some) {
    const Range range{static_cast<std::uint32_t>(all.size()), static_cast<std::uint32_t>(some.size())};
    all.insert(all.end(), some.begin(), some.end());
    return range;
  }
};

/// Every block straight to its destination.
inline Draft direct(int ranks, const Counts& counts) {
  Draft d(ranks);
  for (int r = 0; r < ranks; ++r) {
    for (int other = 0; other < ranks; ++other) {
      if (other == r) continue;
      if (counts.bytes(other, r) > 0) d.recv(r, other, 0, {received(other, counts.bytes(other, r))});
      if (counts.bytes(r, other) > 0) d.send(r, other, 0, {sent(other, counts.bytes(r, other))});
    }
    if (counts.bytes(r, r) > 0) d.copy(r, {sent(r, counts.bytes(r, r))}, {received(r, counts.bytes(r, r))});
  }
  return d;
}

/// Three ranks, 8 bytes a block; the block 0 -> 2 rides to rank 1 with the block 0 -> 1 and on from there.
inline Draft relayed() {
  Draft d(3, 2);
  d.rank(1).scratch_bytes = 8;
  d.recv(0, 1, 0, {received(1, 8)});                                 // 0.0
  d.recv(0, 2, 0, {received(2, 8)});                                 // 0.1
  d.send(0, 1, 0, {sent(1, 8), sent(2, 8)});                         // 0.2
  d.copy(0, {sent(0, 8)}, {received(0, 8)});                         // 0.3
  const auto in = d.recv(1, 0, 0, {received(0, 8), scratch(0, 8)});  // 1.0
  d.recv(1, 2, 0, {received(2, 8)});                                 // 1.1
  d.send(1, 0, 0, {sent(0, 8)});                                     // 1.2
  d.send(1, 2, 0, {sent(2, 8)});                                     // 1.3
  d.send(1, 2, 1, {scratch(0, 8)}, {in});                            // 1.4
  d.copy(1, {sent(1, 8)}, {received(1, 8)});                         // 1.5
  d.recv(2, 1, 0, {received(1, 8)});                                 // 2.0
  d.recv(2, 1, 1, {received(0, 8)});                                 // 2.1
  d.send(2, 0, 0, {sent(0, 8)});                                     // 2.2
  d.send(2, 1, 0, {sent(1, 8)});                                     // 2.3
  d.copy(2, {sent(2, 8)}, {received(2, 8)});                         // 2.4
  return d;
}

/// Only rank 0 has something for rank 2: 8 bytes, that pass rank 1 in two parts through the same 4 bytes of
/// scratch.
inline Draft pipelined() {
  Draft d(3, 2);
  d.rank(1).scratch_bytes = 4;
  d.send(0, 1, 0, {sent(2, 4)});
  d.send(0, 1, 1, {sent(2, 4, 4)});
  const auto first = d.recv(1, 0, 0, {scratch(0, 4)});
  const auto passed = d.send(1, 2, 0, {scratch(0, 4)}, {first});
  const auto second = d.recv(1, 0, 1, {scratch(0, 4)}, {passed});
  d.send(1, 2, 1, {scratch(0, 4)}, {second});
  d.recv(2, 1, 0, {received(0, 4)});
  d.recv(2, 1, 1, {received(0, 4, 4)});
  return d;
}

/// The counts of pipelined().
inline Counts pipelined_counts() {
  return Counts::matrix(3, {0, 0, 8, 0, 0, 0, 0, 0, 0});
}

}  // namespace tapa::test
