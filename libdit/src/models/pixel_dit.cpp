#include "models/pixel_dit.hpp"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/version.h>

#include <cmath>
#include <stdexcept>
#include <utility>

#include "models/attention.hpp"
#include "sampling/cpu_generator.hpp"

namespace dit {
namespace {

constexpr double kEpsilon = 1e-6;
constexpr std::int64_t kTimeFeatures = 256;  // width of the sinusoidal time embedding
constexpr std::int64_t kRowsPerTask = 128;   // fewest rows of a product that are worth a thread

std::string block(std::int64_t layer) {
  return "blocks." + std::to_string(layer) + ".";
}

/// cos and sin of t * 10000^(-i/128), i < 128 (diffusers' Timesteps, flip_sin_to_cos, no shift).
at::Tensor time_features(const at::Tensor& t) {
  const std::int64_t half = kTimeFeatures / 2;
  const at::Tensor frequency = at::exp(at::arange(half, t.options().dtype(at::kFloat)) *
                                       (-std::log(10000.0) / static_cast<double>(half)));
  const at::Tensor angle = t.to(at::kFloat).unsqueeze(1) * frequency.unsqueeze(0);
  return at::cat({at::cos(angle), at::sin(angle)}, 1);
}

at::Tensor layer_norm(const at::Tensor& x) {
  return at::layer_norm(x, {x.size(-1)}, {}, {}, kEpsilon);
}

/// Over the last dimension, in fp32 and back.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 9)
  if (!x.is_cpu()) {  // one kernel
    return at::rms_norm(x, {x.size(-1)}, weight, kEpsilon);
  }
#endif
  const at::Tensor wide = x.to(at::kFloat);
  return (wide * at::rsqrt(wide.square().mean(-1, true) + kEpsilon)).to(x.scalar_type()) * weight;
}

/// Turns pairs (2k, 2k+1) of each head, as complex numbers: x [batch, tokens, heads, head_dim].
at::Tensor rotate(const at::Tensor& x, const RopeTable& rope) {
  const at::Tensor pairs = at::view_as_complex(x.to(at::kFloat).unflatten(-1, {-1, 2}));
  return at::view_as_real(pairs * rope.turns.unsqueeze(1)).flatten(-2).to(x.scalar_type());
}

/// LayerNorm, then x (1 + scale) + shift.
at::Tensor modulated_norm(const at::Tensor& x, const at::Tensor& shift, const at::Tensor& scale) {
  return at::addcmul(shift, layer_norm(x), 1.0 + scale);
}

std::string shape_text(at::IntArrayRef shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

void add_linear(std::map<std::string, std::vector<std::int64_t>>& shapes, const std::string& name,
                std::int64_t out, std::int64_t in) {
  shapes[name + ".weight"] = {out, in};
  shapes[name + ".bias"] = {out};
}

}  // namespace

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

std::map<std::string, std::vector<std::int64_t>> PixelDit::tensor_shapes(const PixelDitConfig& config) {
  const std::int64_t width = config.width;
  const std::int64_t inner = config.heads * config.head_dim;
  std::map<std::string, std::vector<std::int64_t>> shapes;
  add_linear(shapes, "x_embedder", width, config.patch_elements());
  add_linear(shapes, "t_embedder.linear_1", width, kTimeFeatures);
  add_linear(shapes, "t_embedder.linear_2", width, width);
  shapes["y_embedder.weight"] = {config.classes + 1, width};
  add_linear(shapes, "adaln_single.linear", 6 * width, width);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string name = block(layer);
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

PixelDit::PixelDit(const PixelDitConfig& config, TensorMap weights)
    : config_(config), weights_(std::move(weights)) {
  check_weights(config_, weights_);
}

void PixelDit::check_weights(const PixelDitConfig& config, const TensorMap& weights) {
  check(config);
  const auto shapes = tensor_shapes(config);
  for (const auto& [name, shape] : shapes) {
    const auto found = weights.find(name);
    if (found == weights.end()) {
      throw std::invalid_argument("tensor " + name + " is missing: expected shape " + shape_text(shape));
    }
    if (found->second.sizes() != at::IntArrayRef(shape)) {
      throw std::invalid_argument("tensor " + name + " has shape " + shape_text(found->second.sizes()) +
                                  ": expected " + shape_text(shape));
    }
  }
  for (const auto& [name, tensor] : weights) {
    if (shapes.find(name) == shapes.end()) {
      throw std::invalid_argument("tensor " + name + " with shape " + shape_text(tensor.sizes()) +
                                  " is not part of this model: expected none of that name");
    }
  }
}

void PixelDit::to(const at::TensorOptions& options) {
  for (auto& [name, tensor] : weights_) {
    tensor = tensor.to(options);
  }
}

at::Tensor PixelDit::linear(const std::string& name, const at::Tensor& x) const {
  const at::Tensor& w = weight(name + ".weight");
  const at::Tensor& bias = weight(name + ".bias");
  if (!x.is_cpu() || at::GradMode::is_enabled()) {
    return at::linear(x, w, bias);
  }
  // Rows are dealt out to threads here: libtorch's and BLAS's own threads, in turns, wait for each other
  // spinning.
  const at::Tensor rows = x.reshape({-1, x.size(-1)});
  at::Tensor result = at::empty({rows.size(0), w.size(0)}, x.options());
  at::parallel_for(0, rows.size(0), kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    const at::NoGradGuard no_grad;
    at::Tensor part = result.narrow(0, begin, end - begin);
    at::addmm_out(part, bias, rows.narrow(0, begin, end - begin), w.t());
  });
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape.back() = w.size(0);
  return result.reshape(shape);
}

at::Tensor PixelDit::modulation(std::int64_t layer, std::int64_t part, const Conditioning& c) const {
  return weight(block(layer) + "scale_shift_table").select(0, part) + c.six.narrow(1, part, 1);
}

at::Tensor PixelDit::split_heads(const at::Tensor& x) const {
  return x.unflatten(-1, {config_.heads, config_.head_dim});
}

Conditioning PixelDit::condition(const at::Tensor& t, const at::Tensor& labels) const {
  const at::Tensor& table = weight("y_embedder.weight");
  const at::Tensor features = time_features(t * 1000.0).to(table.scalar_type());
  const at::Tensor time = linear("t_embedder.linear_2", at::silu(linear("t_embedder.linear_1", features)));
  const at::Tensor joint = time + at::embedding(table, labels);
  const at::Tensor six = linear("adaln_single.linear", at::silu(joint));
  return {six.unflatten(-1, {6, config_.width}), joint.unsqueeze(1)};
}

RopeTable PixelDit::rope(Range tokens, std::int64_t columns) const {
  const std::int64_t pairs = config_.head_dim / 4;  // of each axis
  const at::TensorOptions options = weight("proj_out.bias").options().dtype(at::kFloat);
  const at::Tensor frequency =
      at::exp(at::arange(pairs, options) * (-std::log(config_.rope_theta) / static_cast<double>(pairs)));
  const at::Tensor token = at::arange(tokens.begin, tokens.end, options.dtype(at::kLong));
  const at::Tensor row = at::div(token, columns, "floor").to(at::kFloat);
  const at::Tensor column = at::remainder(token, columns).to(at::kFloat);
  const at::Tensor angle = at::cat({row.unsqueeze(1) * frequency, column.unsqueeze(1) * frequency}, 1);
  return {at::polar(at::ones_like(angle), angle)};
}

at::Tensor PixelDit::embed(const at::Tensor& patches) const {
  return linear("x_embedder", patches);
}

at::Tensor PixelDit::attention_input(std::int64_t layer, const at::Tensor& x, const Conditioning& c) const {
  return modulated_norm(x, modulation(layer, 0, c), modulation(layer, 1, c));
}

at::Tensor PixelDit::value(std::int64_t layer, const at::Tensor& h) const {
  return split_heads(linear(block(layer) + "attn.to_v", h));
}

at::Tensor PixelDit::query(std::int64_t layer, const at::Tensor& h, const RopeTable& rope) const {
  const std::string name = block(layer) + "attn.";
  return rotate(rms_norm(split_heads(linear(name + "to_q", h)), weight(name + "norm_q.weight")), rope);
}

at::Tensor PixelDit::key(std::int64_t layer, const at::Tensor& h, const RopeTable& rope) const {
  const std::string name = block(layer) + "attn.";
  return rotate(rms_norm(split_heads(linear(name + "to_k", h)), weight(name + "norm_k.weight")), rope);
}

double PixelDit::most_score(std::int64_t layer) const {
  const auto largest_gain = [&](const char* name) {
    return weight(block(layer) + name).abs().max().item<double>();
  };
  const auto head_dim = static_cast<double>(config_.head_dim);
  return std::sqrt(head_dim) * largest_gain("attn.norm_q.weight") * largest_gain("attn.norm_k.weight");
}

at::Tensor PixelDit::after_attention(std::int64_t layer, const at::Tensor& x, const at::Tensor& attended,
                                     const Conditioning& c) const {
  return at::addcmul(x, modulation(layer, 2, c), linear(block(layer) + "attn.to_out", attended.flatten(-2)));
}

at::Tensor PixelDit::feed_forward(std::int64_t layer, const at::Tensor& x, const Conditioning& c) const {
  const std::string name = block(layer) + "ff.net.";
  const at::Tensor input = modulated_norm(x, modulation(layer, 3, c), modulation(layer, 4, c));
  const at::Tensor hidden = at::gelu(linear(name + "0.proj", input), "tanh");
  return at::addcmul(x, modulation(layer, 5, c), linear(name + "2", hidden));
}

at::Tensor PixelDit::output(const at::Tensor& x, const Conditioning& c) const {
  const at::Tensor& table = weight("scale_shift_table");
  const at::Tensor input = modulated_norm(x, table.select(0, 0) + c.last, table.select(0, 1) + c.last);
  return linear("proj_out", input);
}

at::Tensor PixelDit::patchify(const at::Tensor& images) const {
  const std::int64_t p = config_.patch;
  const std::int64_t rows = images.size(2) / p;
  const std::int64_t columns = images.size(3) / p;
  return images.reshape({images.size(0), config_.channels, rows, p, columns, p})
      .permute({0, 2, 4, 1, 3, 5})
      .reshape({images.size(0), rows * columns, config_.patch_elements()});
}

at::Tensor PixelDit::unpatchify(const at::Tensor& patches, std::int64_t height, std::int64_t width) const {
  const std::int64_t p = config_.patch;
  return patches.reshape({patches.size(0), height / p, width / p, config_.channels, p, p})
      .permute({0, 3, 1, 4, 2, 5})
      .reshape({patches.size(0), config_.channels, height, width});
}

at::Tensor PixelDit::forward(const at::Tensor& images, const at::Tensor& t, const at::Tensor& labels) const {
  const std::int64_t columns = images.size(3) / config_.patch;
  const Conditioning c = condition(t, labels);
  const RopeTable table = rope({0, images.size(2) / config_.patch * columns}, columns);
  at::Tensor x = embed(patchify(images));
  for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
    const at::Tensor h = attention_input(layer, x, c);
    const double most = at::GradMode::is_enabled() ? kUnknownScore : most_score(layer);
    const at::Tensor attended =
        attention(query(layer, h, table), key(layer, h, table), value(layer, h), most);
    x = feed_forward(layer, after_attention(layer, x, attended, c), c);
  }
  return unpatchify(output(x, c), images.size(2), images.size(3));
}

}  // namespace dit
