/// A model of a few numbers.
#pragma once

#include "models/pixel_dit_network.hpp"
#include "weights/model_files.hpp"

namespace dit {

inline PixelDitConfig small_network() {
  PixelDitConfig network;
  network.channels = 2;
  network.patch = 2;
  network.width = 8;
  network.heads = 2;
  network.head_dim = 4;
  network.layers = 1;
  network.classes = 3;
  return network;
}

inline ModelConfig small_model_config() {
  ModelConfig config;
  config.network = pixel_dit_network(small_network());
  config.class_names = {"spots", "stripes", "waves"};
  config.channels = {{"u", 0.5, 0.25}, {"v", 0.125, 4}};
  config.trained_sizes = {16, 32};
  config.guidance = 1.5;
  config.steps = 7;
  return config;
}

inline TensorMap small_model_weights(at::ScalarType dtype) {
  TensorMap weights = PixelDit::initial_weights(small_network(), 11);
  for (auto& [name, tensor] : weights) tensor = tensor.to(dtype);
  return weights;
}

}  // namespace dit
