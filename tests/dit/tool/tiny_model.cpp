// Writes a small model with random weights: quick to run, and no layer of it does nothing. Usage:
// dit_tiny_model FOLDER
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <iostream>

#include "models/pixel_dit_network.hpp"
#include "weights/model_files.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: dit_tiny_model FOLDER\n";
    return 2;
  }
  dit::ModelConfig config;
  config.network = dit::pixel_dit_network({.channels = 2,
                                           .patch = 4,
                                           .width = 32,
                                           .heads = 4,
                                           .head_dim = 8,
                                           .layers = 2,
                                           .classes = 3,
                                           .mlp_ratio = 2});
  config.class_names = {"spots", "stripes", "waves"};
  config.channels = {{"u", 0.6, 0.25}, {"v", 0.2, 0.1}};
  config.trained_sizes = {32};
  config.steps = 6;
  at::Generator generator = at::detail::createCPUGenerator(7);
  dit::TensorMap weights;
  for (const auto& [name, shape] : config.network->tensor_shapes()) {
    weights[name] = at::normal(0.0, 0.15, shape, generator);
  }
  dit::save_model(argv[1], config, weights, {{"made", "for tests"}});
}
