/// Shapes of published diffusion transformers, for predictions; and what machines compute.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/step_graph.hpp"

namespace dit {

struct PublishedModel {
  std::string name;
  int layers = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t text_tokens = 0;
  int branches = 1;                ///< forward passes of a step: two with classifier-free guidance
  int single_layers = 0;           ///< the last ones, of one stream with the MLP beside attention
  std::int64_t token_pixels = 16;  ///< side of the square that a token stands for
};
[[nodiscard]] std::vector<Block> blocks_of(const PublishedModel& model);
/// Throws std::invalid_argument that lists the names.
[[nodiscard]] const PublishedModel& published_model(const std::string& name);
[[nodiscard]] std::string published_model_names();

/// What one rank of a machine computes.
struct PublishedRates {
  std::string machine;
  double linear_flops = 0;
  double attention_flops = 0;
  double memory_bytes_per_second = 0;
  std::string source;
};
/// Null for a machine of which nothing is known.
[[nodiscard]] const PublishedRates* published_rates(const std::string& machine);

}  // namespace dit
