// PixelDit's sizes: what is legal, its tensors, and weights to start training from.
#include <cmath>
#include <stdexcept>

#include "models/pixel_dit.hpp"
#include "sampling/cpu_generator.hpp"

namespace dit {

void check(const PixelDitConfig& config) {
  const auto positive = [](const char* name, std::int64_t value) {
    if (value < 1) {
      throw std::invalid_argument(std::string(name) + " = " + std::to_string(value) +
                                  ": expected at least 1");
    }
  };
  positive("channels", config.channels);
  positive("patch", config.patch);
  positive("width", config.width);
  positive("heads", config.heads);
  positive("layers", config.layers);
  positive("classes", config.classes);
  positive("mlp_ratio", config.mlp_ratio);
  if (config.head_dim < 4 || config.head_dim % 4 != 0) {
    throw std::invalid_argument("head_dim = " + std::to_string(config.head_dim) +
                                ": expected a multiple of 4 (2-D RoPE turns pairs, half of them per axis)");
  }
  if (!(config.rope_theta > 1.0)) {
    throw std::invalid_argument("rope_theta = " + std::to_string(config.rope_theta) +
                                ": expected more than 1");
  }
}

TensorShapes PixelDit::tensor_shapes(const PixelDitConfig& config) {
  const std::int64_t width = config.width;
  const std::int64_t inner = config.heads * config.head_dim;
  TensorShapes shapes;
  add_linear(shapes, "x_embedder", width, config.patch_elements());
  add_linear(shapes, "t_embedder.linear_1", width, kTimeFeatures);
  add_linear(shapes, "t_embedder.linear_2", width, width);
  shapes["y_embedder.weight"] = {config.classes + 1, width};
  add_linear(shapes, "adaln_single.linear", 6 * width, width);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string name = "blocks." + std::to_string(layer) + ".";
    shapes[name + "scale_shift_table"] = {6, width};
    add_linear(shapes, name + "attn.to_q", inner, width);
    add_linear(shapes, name + "attn.to_k", inner, width);
    add_linear(shapes, name + "attn.to_v", inner, width);
    shapes[name + "attn.norm_q.weight"] = {config.head_dim};
    shapes[name + "attn.norm_k.weight"] = {config.head_dim};
    add_linear(shapes, name + "attn.to_out", width, inner);
    add_linear(shapes, name + "ff.net.0.proj", config.mlp_ratio * width, width);
    add_linear(shapes, name + "ff.net.2", width, config.mlp_ratio * width);
  }
  shapes["scale_shift_table"] = {2, width};
  add_linear(shapes, "proj_out", config.patch_elements(), width);
  return shapes;
}

TensorMap PixelDit::initial_weights(const PixelDitConfig& config, std::uint64_t seed) {
  check(config);
  const at::Generator generator = cpu_generator(seed);
  const auto ends_with = [](const std::string& name, const char* end) {
    const std::string tail = end;
    return name.size() >= tail.size() && name.compare(name.size() - tail.size(), tail.size(), tail) == 0;
  };
  TensorMap weights;
  for (const auto& [name, shape] : tensor_shapes(config)) {
    if (ends_with(name, "norm_q.weight") || ends_with(name, "norm_k.weight")) {
      weights[name] = at::ones(shape);
    } else if (name == "y_embedder.weight" || ends_with(name, "scale_shift_table")) {
      weights[name] = at::randn(shape, generator) * 0.02;
    } else if (shape.size() == 2 && name.rfind("proj_out", 0) != 0 && name.rfind("adaln_single", 0) != 0) {
      const double bound = std::sqrt(6.0 / static_cast<double>(shape[0] + shape[1]));
      weights[name] = (at::rand(shape, generator) * 2.0 - 1.0) * bound;
    } else {
      weights[name] = at::zeros(shape);
    }
  }
  return weights;
}

}  // namespace dit
