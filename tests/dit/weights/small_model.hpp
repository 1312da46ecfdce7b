/// A model of a few numbers.
#pragma once

#include "weights/model_files.hpp"

namespace dit {

inline ModelConfig small_model_config() {
  ModelConfig config;
  config.network.channels = 2;
  config.network.patch = 2;
  config.network.width = 8;
  config.network.heads = 2;
  config.network.head_dim = 4;
  config.network.layers = 1;
  config.network.classes = 3;
  config.class_names = {"spots", "stripes", "waves"};
  config.channels = {{"u", 0.5, 0.25}, {"v", 0.125, 4}};
  config.trained_sizes = {16, 32};
  config.guidance = 1.5;
  config.steps = 7;
  return config;
}

inline TensorMap small_model_weights(at::ScalarType dtype) {
  TensorMap weights = PixelDit::initial_weights(small_model_config().network, 11);
  for (auto& [name, tensor] : weights) tensor = tensor.to(dtype);
  return weights;
}

}  // namespace dit
