/// Predicts step times of a diffusion transformer from its shape and a machine's rates: pure formulas, no
/// measuring.
///
/// Units: seconds, bytes, FLOP (a multiply-add is two), FLOP/s. Everything is for the busiest rank or node,
/// as the others wait for it. Of the layout (layout.hpp): n = rows of a rank in the sequence layout, N = all
/// tokens, b = batch, W = width, h = a rank's heads of the group, d = head_dim, q = tokens that a rank
/// attends for (N unless ranks share heads), H and G = all query heads, all key and value heads, P = elements
/// of a patch, m = mlp_ratio.
///
///     step        FLOP                elements read and written beside the matrix products
///     prepare     2 b n P W           -
///     value       2 b n W G d         4 b n W  (norm, modulation)
///     query       2 b n W H d         4 b n H d  (norm, rotation)
///     key         2 b n W G d         4 b n G d
///     score       -                   2 b n G d
///     attention   4 b q N h d         -
///     finish      2 b n H d W         3 b n W  (residual)
///     mlp         4 b n m W W         7 b n W + 2 b n m W  (norm, modulation, residual, activation)
///     mlp_in      2 b n m W W         2 b n m W  (activation)
///     mlp_out     2 b n m W W         b n W  (added by finish)
///     last        2 b n W P           4 b n W
///
///     seconds = max(1, ranks / slots) * (FLOP / rate + bytes of elements / memory rate + step_seconds)
///
/// An exchange moves b n c d elements from one rank to another, c the heads that the other one holds (query
/// and output: times q / N). Peers on other nodes are reached through the node's NIC, which its ranks share,
/// in each direction.
///
///     slow      = messages * time of a message + busiest node's bytes in or out / NIC rate
///
///     fast      = messages * time of a message + busiest rank's bytes in or out / link rate
///
///     direct    = max(slow, fast); a rank sends one message to each peer
///
///     two-level = slow + fast; all moves within the node first, then one message goes to each other node
///
/// Packing, unpacking and the conditioning network are left out.
#pragma once

#include <cstdint>

#include "layout/layout.hpp"
#include "schedule/step_graph.hpp"

namespace dit {

/// A forward pass of one unit on some ranks.
struct ForwardShape {
  AttentionShape attention;
  std::int64_t width = 0;
  double mlp_ratio = 4;
  std::int64_t patch_elements = 0;
  std::int64_t element_bytes = 4;  ///< of what is computed with and sent
  int ranks = 1;
  int ranks_per_node = 1;    ///< the last node may have fewer
  double scatter_share = 1;  ///< of the bytes of Q, K and V what travels between nodes
  double output_share = 1;   ///< the same of the output
};

/// One level of links.
struct LinkRates {
  double bytes_per_second = 0;
  double seconds_per_message = 0;  ///< what each further message adds
};

struct MachineRates {
  double linear_flops = 0;             ///< of one rank, in matrix products
  double attention_flops = 0;          ///< of one rank, in attention
  double memory_bytes_per_second = 0;  ///< of one rank, in element-wise work; 0: that costs nothing
  double step_seconds = 0;             ///< fixed cost of a compute step
  double compute_slots = 0;  ///< ranks that can compute at these rates at once; 0: all. Fewer than ranks
                             ///< where several share a core or a device
  LinkRates fast;            ///< within a node, of one rank in one direction
  LinkRates slow;            ///< between nodes, of one node in one direction
  bool two_level = false;    ///< exchanges go through the node's ranks (libtapa) instead of directly
};

/// FLOP of a compute step; `group` of `groups`.
[[nodiscard]] double step_flops(StepRole role, const ForwardShape& shape, int group = 0, int groups = 1);

/// What an exchange moves.
struct ExchangeVolume {
  double rank_slow_bytes = 0;  ///< that the busiest rank sends beyond its node
  double node_slow_bytes = 0;  ///< that the busiest node sends, or receives if more
  double fast_bytes = 0;       ///< that the busiest rank sends, or receives if more, within its node
  int slow_messages = 0;       ///< that a rank sends beyond its node
  int fast_messages = 0;
};
[[nodiscard]] ExchangeVolume exchange_volume(StepRole role, const ForwardShape& shape, bool two_level,
                                             int group = 0, int groups = 1);

/// Bytes that a rank sends to another one in an exchange, the mean over all pairs; all rows travel.
[[nodiscard]] double mean_block_bytes(StepRole role, const ForwardShape& shape, int group = 0,
                                      int groups = 1);

/// Seconds of one step, of either kind.
[[nodiscard]] double step_seconds(StepRole role, const ForwardShape& shape, const MachineRates& rates,
                                  int group = 0, int groups = 1);

/// Fills in seconds and slow_bytes of all steps. Throws std::invalid_argument that names the field of shape
/// or rates, its value and what was expected.
void estimate(StepGraph& graph, const ForwardShape& shape, const MachineRates& rates);

}  // namespace dit
