/// How long the steps of a forward pass take: measured on all ranks, and the same numbers on all of them,
/// since orders are made from them and exchanges must start in the same order everywhere.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "exchange/exchange.hpp"
#include "predict/step_mix.hpp"
#include "schedule/step_graph.hpp"

namespace dit {

/// Tensors that travel in full.
inline constexpr TensorShares kFullTensors = {1, 1, 1, 1};
/// Of what a step would send in full that which it sends; 1 for computations.
[[nodiscard]] double share_of(StepRole role, const TensorShares& sent);
/// What was seen of a share, for all of it; of nothing nothing is known.
[[nodiscard]] double whole(double seen, double share);

class StepEstimates {
 public:
  using Key = std::tuple<StepRole, int, int>;  ///< role, head group, kind of block

  /// Adds what was measured with nothing overlapped (flat_order), per role, head group and kind of block: the
  /// median over layers and units, then of the ranks the shortest exchange (nobody was late for it) and the
  /// longest computation (the others wait for it). No exchange is faster by bytes than the slowest scatter.
  /// Roles that are known stay as they are. The graph's bytes are of full tensors; `sent`: what travelled of
  /// them. Collective.
  void add(const StepGraph& graph, const std::vector<double>& step_seconds, const TensorShares& sent,
           ExchangeContext* context);
  /// Whether every step of the graph has an estimate.
  [[nodiscard]] bool cover(const StepGraph& graph) const;
  /// Fills in the seconds of a graph: an exchange takes its time for what is sent.
  void fill(StepGraph& graph, const TensorShares& sent) const;

 private:
  std::map<Key, double> seconds_;  // of full tensors
};

}  // namespace dit
