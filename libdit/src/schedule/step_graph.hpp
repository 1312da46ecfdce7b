/// The work of a forward pass as steps with dependencies. A schedule is an order of them (order.hpp); nothing
/// here knows tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dit {

using StepId = std::int32_t;

/// What a step does, for schedules that care (V-First) and for traces.
enum class StepRole : std::uint8_t {
  prepare,        ///< embed tokens, or anything before the first block
  value,          ///< norm, modulation, V projection
  query,          ///< Q projection, norm, RoPE
  key,            ///< K projection, norm, RoPE
  score,          ///< V-Major: which rows changed
  scatter_value,  ///< exchange of V, sequence -> head layout
  scatter_query,
  scatter_key,
  attention,
  gather_output,  ///< exchange of the attention's output, head -> sequence layout
  finish,         ///< output projection, residual
  mlp,            ///< feed-forward, residual
  last,           ///< output layer
  mlp_in,         ///< MLP beside attention: norm's result to the hidden layer
  mlp_out         ///< MLP beside attention: hidden layer to what finish adds
};
inline constexpr int kStepRoles = 15;
[[nodiscard]] const char* to_string(StepRole role);
[[nodiscard]] bool is_exchange(StepRole role);

struct Step {
  StepRole role = StepRole::prepare;
  int unit = 0;  ///< what runs independently of the others: a guidance branch, a sample
  int layer = 0;
  int group = 0;                 ///< head group
  std::vector<StepId> after;     ///< steps that must be complete before this one starts; smaller ids only
  double seconds = 0;            ///< estimate: compute time, or transfer time when alone on the links
  std::uint64_t slow_bytes = 0;  ///< exchanges: bytes this rank sends beyond the node, for reports
};

/// Where a block computes its MLP.
enum class MlpPlace : std::uint8_t {
  after,  ///< of what attention left: PixelDit, Qwen-Image, SD3, Wan, FLUX's double streams
  beside  ///< of what attention is given, too; finish adds both: FLUX's single streams
};

/// What a schedule knows of a block.
struct Block {
  MlpPlace mlp = MlpPlace::after;
  int kind =
      0;  ///< blocks of one kind take the same times: double streams are one kind, single streams another
  bool operator==(const Block&) const = default;
};

/// Steps in their natural order: every dependency has a smaller id.
struct StepGraph {
  std::vector<Step> steps;
  int units = 1;
  int layers = 0;
  int groups = 1;
  std::vector<Block> blocks;  ///< of each layer; empty: all as Block{}
  [[nodiscard]] Block block_of(int layer) const {
    return blocks.empty() ? Block{} : blocks[static_cast<std::size_t>(layer)];
  }
};

/// Shape of the graph of a transformer forward pass.
struct BlockGraphOptions {
  int units = 1;
  int layers = 1;
  int groups = 1;                  ///< head groups
  bool selective = false;          ///< V-Major step: with score
  std::vector<Block> blocks = {};  ///< of each layer; empty: all as Block{}
};
/// Unit after unit: prepare; per layer value, [score], query, key, [mlp_in], per group scatter_value,
/// scatter_query, scatter_key, attention, gather_output; then finish, mlp, or with an MLP beside attention
/// mlp_out, finish; at the end last. In this order mlp_in hides the scatters of query and key, and mlp_out
/// the gather. Estimates are zero. Query, key and mlp_in come after value, as value computes the modulated
/// input that they share. Throws std::invalid_argument that names the option, its value and what was
/// expected.
[[nodiscard]] StepGraph transformer_graph(const BlockGraphOptions& options);

/// A step's name for traces and messages: "layer 3 unit 1 scatter_key group 0".
[[nodiscard]] std::string step_name(const Step& step);

/// Empty when ids and dependencies are sound; else what is wrong.
[[nodiscard]] std::string verify(const StepGraph& graph);

}  // namespace dit
