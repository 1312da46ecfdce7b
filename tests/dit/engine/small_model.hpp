/// A model small enough for many ranks on two cores, whose tokens and heads no number of ranks here divides.
#pragma once

#include <ATen/ATen.h>

#include <mutex>
#include <string>
#include <utility>

#include "engine/engine.hpp"
#include "exchange/local/local_ranks.hpp"
#include "models/pixel_dit_network.hpp"
#include "sampling/cpu_generator.hpp"
#include "weights/model_files.hpp"

namespace dit::test {

inline LoadedModel small_model() {
  LoadedModel model;
  PixelDitConfig network;
  network.channels = 2;
  network.patch = 4;
  network.width = 20;
  network.heads = 5;
  network.head_dim = 4;
  network.layers = 2;
  network.classes = 3;
  network.mlp_ratio = 2;
  model.config.network = pixel_dit_network(network);
  model.config.class_names = {"spots", "stripes", "waves"};
  model.config.channels = {{"u", 0, 1}, {"v", 0, 1}};
  model.config.trained_sizes = {12};
  model.weights = PixelDit::initial_weights(network, 1);
  const at::Generator generator = cpu_generator(7);
  for (auto& [name, tensor] : model.weights) {  // a fresh model answers zero
    tensor = tensor + at::randn(tensor.sizes(), generator) * 0.2;
  }
  return model;
}

/// 3 x 13 tokens, four steps.
inline GenerateOptions small_image() {
  GenerateOptions options;
  options.label = 1;
  options.seed = 11;
  options.height = 12;
  options.width = 52;
  options.sampler.steps = 4;
  return options;
}

inline GenerateOptions longer_image() {
  GenerateOptions options = small_image();
  options.sampler.steps = 10;
  return options;
}

/// 0 ranks per node: all on one.
inline LocalGroupOptions nodes(int ranks, int ranks_per_node = 0) {
  LocalGroupOptions group;
  group.ranks = ranks;
  group.ranks_per_node = ranks_per_node;
  return group;
}

/// Rank 0's result on so many ranks; 1: without a context.
inline GenerateResult generate_on(const LocalGroupOptions& group, const GenerateOptions& options) {
  if (group.ranks == 1) {
    return Engine(small_model(), nullptr).generate(options);
  }
  GenerateResult of_first;
  run_local_ranks(group, [&](ExchangeContext& context) {
    GenerateResult result = Engine(small_model(), &context).generate(options);
    if (context.rank() == 0) {
      of_first = std::move(result);
    }
  });
  return of_first;
}

inline GenerateResult generate_on(int ranks, const GenerateOptions& options) {
  return generate_on(nodes(ranks), options);
}

/// Rank 0's, of all steps.
inline double slow_bytes(const GenerateResult& result) {
  double bytes = 0;
  for (const StepReport& step : result.report.steps) {
    bytes += static_cast<double>(step.slow_bytes);
  }
  return bytes;
}

/// Largest difference, relative to the largest value.
inline double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

}  // namespace dit::test
