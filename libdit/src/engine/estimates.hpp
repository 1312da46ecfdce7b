/// How long the steps of a forward pass take: measured on all ranks, and the same numbers on all of them,
/// since orders are made from them and exchanges must start in the same order everywhere.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "exchange/exchange.hpp"
#include "schedule/step_graph.hpp"

namespace dit {

class StepEstimates {
 public:
  using Key = std::pair<StepRole, int>;  ///< role, head group

  /// Adds what was measured with nothing overlapped (flat_order), per role and head group: the median over
  /// layers and units, then of the ranks the shortest exchange (nobody was late for it) and the longest
  /// computation (the others wait for it). No exchange is faster by bytes than the slowest scatter. Roles
  /// that are known stay as they are. Collective.
  void add(const StepGraph& graph, const std::vector<double>& step_seconds, ExchangeContext* context);
  /// Whether every step of the graph has an estimate.
  [[nodiscard]] bool cover(const StepGraph& graph) const;
  /// Fills in the seconds of a graph. Of scatters only `active_fraction` travels.
  void fill(StepGraph& graph, double active_fraction) const;

 private:
  std::map<Key, double> seconds_;
};

}  // namespace dit
