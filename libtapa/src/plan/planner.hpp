/// @file
/// topology + counts + choice -> plan. Pure functions; the table of algorithms.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/choice.hpp"
#include "plan/counts.hpp"
#include "plan/plan.hpp"
#include "topology/topology.hpp"

namespace tapa {

/// How much of the counts a rank must know to plan.
enum class Knowledge : std::uint8_t {
  own,    ///< its own row and column
  group,  ///< rows and columns of its group at the slowest split
  all     ///< the whole matrix
};

/// One row of the self-describing table that tapa-info --algorithms prints.
struct AlgorithmInfo {
  Algorithm algorithm;
  std::string_view name;
  std::string_view summary;
  std::string_view supports;  ///< "any ranks, uniform and v", ...
  std::string_view cost;      ///< formula, in the terms of the cost model
  std::string_view source;    ///< where the algorithm and its formula come from
};

[[nodiscard]] std::span<const AlgorithmInfo> algorithms();

/// Knowledge that `choice` needs when counts are not uniform.
[[nodiscard]] Knowledge knowledge_needed(const Choice& choice);

/// Empty when `choice` can be carried out on `topology`, else the reason in words (unknown split level, ...).
[[nodiscard]] std::string why_not(const Topology& topology, const Choice& choice);

/// The plan of one rank. O(blocks it touches) time and memory.
/// Throws std::invalid_argument with why_not's text, or when choice.algorithm is `mpi` or `memory` (which
/// have no plan: nothing of ours runs, or no messages do).
[[nodiscard]] RankPlan plan_rank(const Topology& topology, const Counts& counts, const Choice& choice,
                                 int rank);

/// Phases of a choice on a topology, as RankPlan's steps number them.
[[nodiscard]] std::vector<Phase> phases_of(const Topology& topology, const Choice& choice);

/// The plan of all ranks, for tools and tests.
[[nodiscard]] Plan make_plan(const Topology& topology, const Counts& counts, const Choice& choice);

}  // namespace tapa
