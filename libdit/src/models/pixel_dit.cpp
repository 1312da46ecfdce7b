#include "models/pixel_dit.hpp"

#include <cmath>
#include <utility>

#include "models/patches.hpp"

namespace dit {
namespace {

std::string block_prefix(std::int64_t layer) {
  return "blocks." + std::to_string(layer) + ".";
}

TensorMap checked(const PixelDitConfig& config, TensorMap weights) {
  check(config);
  check_weights(PixelDit::tensor_shapes(config), weights);
  return weights;
}

/// A sample's way through the blocks.
class PixelDitForward : public SampleForward {
 public:
  PixelDitForward(const PixelDit& model, const OwnTokens& tokens)
      : model_(model), rope_(model.rope(tokens.image, tokens.columns)) {}

  void prepare(const at::Tensor& patches, double time, std::int64_t label) override {
    const at::TensorOptions options = patches.options();
    conditioning_ = model_.condition(at::full({1}, time, options.dtype(at::kFloat)),
                                     at::full({1}, label, options.dtype(at::kLong)));
    x_ = model_.embed(patches);
    normed_ = at::Tensor();
  }

  [[nodiscard]] at::Tensor attention_input(int layer) override {
    if (!normed_.defined()) {  // Q, K and V come in the order of the schedule: the first one norms
      normed_ = model_.block(layer).attention_input(x_, conditioning_);
    }
    return normed_;
  }
  [[nodiscard]] at::Tensor query(int layer) override {
    return model_.block(layer).query(attention_input(layer), rope_);
  }
  [[nodiscard]] at::Tensor key(int layer) override {
    return model_.block(layer).key(attention_input(layer), rope_);
  }
  [[nodiscard]] at::Tensor value(int layer) override {
    return model_.block(layer).value(attention_input(layer));
  }
  void finish(int layer, const at::Tensor& attended) override {
    x_ = model_.block(layer).after_attention(x_, attended, conditioning_);
  }
  void mlp(int layer) override {
    x_ = model_.block(layer).feed_forward(x_, conditioning_);
    normed_ = at::Tensor();
  }
  [[nodiscard]] at::Tensor image_stream() const override { return x_; }
  [[nodiscard]] at::Tensor last() override { return model_.output(x_, conditioning_); }

 private:
  const PixelDit& model_;
  RopeTable rope_;
  PixelDitConditioning conditioning_;
  at::Tensor x_;       // [1, own tokens, width]
  at::Tensor normed_;  // the block's input; undefined until somebody needs it
};

}  // namespace

ModelShape shape_of(const PixelDitConfig& config) {
  ModelShape shape;
  shape.channels = config.channels;
  shape.patch = config.patch;
  shape.classes = config.classes;
  shape.width = config.width;
  shape.mlp_ratio = static_cast<double>(config.mlp_ratio);
  shape.attention.heads = config.heads;
  shape.attention.kv_heads = config.heads;
  shape.attention.head_dim = config.head_dim;
  shape.blocks.resize(static_cast<std::size_t>(config.layers));
  return shape;
}

PixelDit::PixelDit(const PixelDitConfig& config, TensorMap weights)
    : config_(config),
      shape_(shape_of(config)),
      weights_(checked(config, std::move(weights))),
      x_embedder_(weights_, "x_embedder"),
      time_in_(weights_, "t_embedder.linear_1"),
      time_out_(weights_, "t_embedder.linear_2"),
      adaln_(weights_, "adaln_single.linear"),
      proj_out_(weights_, "proj_out") {
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    blocks_.emplace_back(weights_, block_prefix(layer), config.head_dim);
  }
}

std::unique_ptr<SampleForward> PixelDit::forward_on(const OwnTokens& tokens) const {
  return std::make_unique<PixelDitForward>(*this, tokens);
}

PixelDitConditioning PixelDit::condition(const at::Tensor& t, const at::Tensor& labels) const {
  const at::Tensor& table = weights_.at("y_embedder.weight");
  const at::Tensor features = time_features(t).to(table.scalar_type());
  const at::Tensor time = time_out_(at::silu(time_in_(features)));
  const at::Tensor joint = time + at::embedding(table, labels);
  const at::Tensor six = adaln_(at::silu(joint));
  return {six.unflatten(-1, {6, config_.width}), joint.unsqueeze(1)};
}

RopeTable PixelDit::rope(Range tokens, std::int64_t columns) const {
  const std::int64_t pairs = config_.head_dim / 4;  // of each axis
  const at::TensorOptions options = proj_out_.bias.options().dtype(at::kFloat);
  const at::Tensor frequency =
      at::exp(at::arange(pairs, options) * (-std::log(config_.rope_theta) / static_cast<double>(pairs)));
  const at::Tensor token = at::arange(tokens.begin, tokens.end, options.dtype(at::kLong));
  const at::Tensor row = at::div(token, columns, "floor").to(at::kFloat);
  const at::Tensor column = at::remainder(token, columns).to(at::kFloat);
  const at::Tensor angle = at::cat({row.unsqueeze(1) * frequency, column.unsqueeze(1) * frequency}, 1);
  return {at::polar(at::ones_like(angle), angle)};
}

at::Tensor PixelDit::output(const at::Tensor& x, const PixelDitConditioning& c) const {
  const at::Tensor& table = weights_.at("scale_shift_table");
  return proj_out_(modulated_norm(x, table.select(0, 0) + c.last, table.select(0, 1) + c.last));
}

at::Tensor PixelDit::forward(const at::Tensor& images, const at::Tensor& t, const at::Tensor& labels) const {
  const std::int64_t columns = images.size(3) / config_.patch;
  const PixelDitConditioning c = condition(t, labels);
  const RopeTable table = rope({0, images.size(2) / config_.patch * columns}, columns);
  at::Tensor x = embed(patchify(images, config_.patch));
  for (const PixelDitBlock& block : blocks_) {
    x = block.forward(x, c, table);
  }
  return unpatchify(output(x, c), config_.patch, images.size(2), images.size(3));
}

}  // namespace dit
