#include "plan/planner.hpp"

#include <stdexcept>

#include "plan/build.hpp"
#include "plan/route.hpp"

namespace tapa {

namespace {

std::string known_levels(const Topology& topology) {
  std::string names;
  for (const Level& level : topology.levels) names += (names.empty() ? "" : ", ") + level.name;
  return names;
}

std::string why_not_split(const Topology& topology, const Choice& choice) {
  if (choice.splits.empty()) return "plan " + to_string(choice) + " has no split, expected a level name";
  if (choice.algorithm == Algorithm::leaders && choice.splits.size() > 1) {
    return "leaders split at one level, got " + std::to_string(choice.splits.size());
  }
  int previous = -1;
  for (const std::string& name : choice.splits) {
    const int level = topology.find_level(name);
    if (level < 0) return "split level " + name + " is unknown, expected one of " + known_levels(topology);
    if (level <= previous) return "split level " + name + " is not slower than the one before it";
    previous = level;
  }
  return {};
}

std::string why_not_flat(const Flat& flat) {
  if (flat.radix < 2) return "radix is " + std::to_string(flat.radix) + ", expected at least 2";
  if (flat.window < 0) return "window is " + std::to_string(flat.window) + ", expected at least 0";
  return {};
}

}  // namespace

std::string why_not(const Topology& topology, const Choice& choice) {
  for (const Flat* flat : {&choice.flat, &choice.fast, &choice.slow}) {
    if (std::string reason = why_not_flat(*flat); !reason.empty()) return reason;
  }
  switch (choice.algorithm) {
    case Algorithm::mpi:
      return "mpi has no plan: the call is left to MPI";
    case Algorithm::memory:
      if (topology.nodes() > 1) {
        return "memory is shared by ranks of one node, the topology has " + std::to_string(topology.nodes());
      }
      return {};
    case Algorithm::linear:
    case Algorithm::pairwise:
    case Algorithm::bruck:
      return {};
    case Algorithm::tapa:
    case Algorithm::leaders:
      break;
  }
  if (choice.leaders < 0) return "leaders is " + std::to_string(choice.leaders) + ", expected at least 0";
  if (choice.pipeline < 1) return "pipeline is " + std::to_string(choice.pipeline) + ", expected at least 1";
  return why_not_split(topology, choice);
}

Knowledge knowledge_needed(const Choice& choice) {
  switch (choice.algorithm) {
    case Algorithm::mpi:
    case Algorithm::memory:
    case Algorithm::linear:
    case Algorithm::pairwise:
      return Knowledge::own;
    case Algorithm::bruck:
      return Knowledge::all;
    case Algorithm::tapa:
    case Algorithm::leaders:
      break;
  }
  // A slow Bruck relays blocks of groups that are neither their source's nor their destination's.
  return choice.slow.algorithm == FlatAlgorithm::bruck ? Knowledge::all : Knowledge::group;
}

RankPlan plan_rank(const Topology& topology, const Counts& counts, const Choice& choice, int rank) {
  return build_rank_plan(Routes(topology, choice), counts, rank);
}

std::vector<Phase> phases_of(const Topology& topology, const Choice& choice) {
  const Routes routes(topology, choice);
  std::vector<Phase> phases;
  for (const StageOrder& stage : routes.stages()) phases.push_back(stage.phase);
  return phases;
}

Plan make_plan(const Topology& topology, const Counts& counts, const Choice& choice) {
  const Routes routes(topology, choice);
  Plan plan;
  plan.choice = to_string(choice);
  plan.ranks = topology.ranks;
  for (const StageOrder& stage : routes.stages()) plan.phases.push_back(stage.phase);
  for (int rank = 0; rank < topology.ranks; ++rank)
    plan.of_rank.push_back(build_rank_plan(routes, counts, rank));
  return plan;
}

}  // namespace tapa
