/// @file
/// A plan is an all-to-all written down as data: for each rank a list of steps (sends, receives, copies) over
/// three buffers, with the steps that must be complete before each may begin. Planners make it, the verifier
/// replays it, the cost model prices it, explain prints it, and one executor carries it out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tapa {

/// Which memory a segment lies in. `send` and `recv` are the caller's blocks; `scratch` is the library's.
enum class Buffer : std::uint8_t { send, recv, scratch };

/// A run of bytes. In `send`, `block` is the destination rank of the block and `offset` counts inside it;
/// in `recv`, `block` is the source rank; in `scratch`, `block` is 0 and `offset` counts from its start.
struct Segment {
  Buffer buffer = Buffer::scratch;
  std::int32_t block = 0;
  std::size_t offset = 0;
  std::size_t bytes = 0;
  bool operator==(const Segment&) const = default;
};

enum class StepKind : std::uint8_t { send, recv, copy };

/// Half-open range of indices into one of RankPlan's pools.
struct Range {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

/// One step of one rank. A send gathers `from` into one message to `peer`; a receive scatters one message
/// from `peer` over `to`; a copy moves `from` to `to` inside the rank. Both ends of a message list the same
/// bytes in the same order. (peer, channel) names the message: a rank sends at most one message to a peer on
/// a channel.
struct Step {
  StepKind kind = StepKind::copy;
  std::uint16_t phase = 0;   ///< index into Plan::phases; a label, the order is in `deps`
  std::int32_t peer = -1;    ///< the other rank; the rank itself for copies
  std::int32_t channel = 0;  ///< the message's tag inside the plan, 0 .. channels-1
  std::size_t bytes = 0;     ///< total of the segments
  Range from;                ///< segments read (send, copy)
  Range to;                  ///< segments written (recv, copy)
  Range deps;                ///< earlier steps of this rank that must be complete first
};

/// What one rank does. Steps are in the order in which ready ones should be posted; a step depends only on
/// steps with a smaller index, so a plan cannot be cyclic inside a rank.
struct RankPlan {
  int rank = 0;
  int ranks = 0;
  std::vector<Step> steps;
  std::vector<Segment> segments;
  std::vector<std::uint32_t> deps;
  std::size_t scratch_bytes = 0;
  int channels = 0;

  [[nodiscard]] std::span<const Segment> from(const Step& step) const {
    return std::span(segments).subspan(step.from.first, step.from.count);
  }
  [[nodiscard]] std::span<const Segment> to(const Step& step) const {
    return std::span(segments).subspan(step.to.first, step.to.count);
  }
  [[nodiscard]] std::span<const std::uint32_t> deps_of(const Step& step) const {
    return std::span(deps).subspan(step.deps.first, step.deps.count);
  }
};

/// A phase as people read it: "fast node", "slow lanes".
struct Phase {
  std::string name;
  int level = -1;  ///< level whose links it is meant to use, -1 when mixed
};

/// The whole plan: one RankPlan for each rank (tools and tests), or for the caller's own rank only (the
/// library).
struct Plan {
  std::string choice;  ///< text form of the choice that made it, see choice.hpp
  int ranks = 0;
  std::vector<Phase> phases;
  std::vector<RankPlan> of_rank;
};

}  // namespace tapa
