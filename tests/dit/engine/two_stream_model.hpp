/// A joint transformer as FLUX is one, small: text and image in streams of their own widths (double blocks),
/// then in one stream whose MLP is beside attention (single blocks); three query heads share a key and value
/// head.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "json/json_object.hpp"
#include "models/modules.hpp"
#include "models/network.hpp"
#include "sampling/cpu_generator.hpp"
#include "weights/model_files.hpp"

namespace dit::test {

struct TwoStreamConfig {
  std::int64_t text_tokens = 7;
  JointOrder order = JointOrder::text_image;
  TextPlacement text = TextPlacement::split;
  int double_blocks = 1;
  int single_blocks = 2;
};

inline constexpr std::int64_t kImageWidth = 20;
inline constexpr std::int64_t kTextWidth = 12;
inline constexpr std::int64_t kHidden = 28;  // of MLPs
inline constexpr std::int64_t kHeads = 6;
inline constexpr std::int64_t kKvHeads = 2;
inline constexpr std::int64_t kHeadDim = 4;
inline constexpr std::int64_t kClasses = 3;
inline constexpr std::int64_t kPatch = 4;
inline constexpr std::int64_t kPatchElements = 2 * kPatch * kPatch;

inline ModelShape two_stream_shape(const TwoStreamConfig& config) {
  ModelShape shape;
  shape.channels = 2;
  shape.patch = kPatch;
  shape.classes = kClasses;
  shape.width = kImageWidth;
  shape.mlp_ratio = static_cast<double>(kHidden) / kImageWidth;
  shape.attention.text_tokens = config.text_tokens;
  shape.attention.order = config.order;
  shape.attention.text = config.text;
  shape.attention.heads = kHeads;
  shape.attention.kv_heads = kKvHeads;
  shape.attention.head_dim = kHeadDim;
  shape.blocks.assign(static_cast<std::size_t>(config.double_blocks), {MlpPlace::after, 0});
  shape.blocks.resize(static_cast<std::size_t>(config.double_blocks + config.single_blocks),
                      {MlpPlace::beside, 1});
  return shape;
}

inline void add_projections(TensorShapes& shapes, const std::string& name, std::int64_t width) {
  add_linear(shapes, name + "q", kHeads * kHeadDim, width);
  add_linear(shapes, name + "k", kKvHeads * kHeadDim, width);
  add_linear(shapes, name + "v", kKvHeads * kHeadDim, width);
  add_linear(shapes, name + "out", width, kHeads * kHeadDim);
  add_linear(shapes, name + "in", kHidden, width);
  add_linear(shapes, name + "down", width, kHidden);
}

class TwoStream : public Model {
 public:
  TwoStream(const TwoStreamConfig& config, TensorMap weights)
      : config_(config), shape_(two_stream_shape(config)), weights_(std::move(weights)) {}
  [[nodiscard]] const ModelShape& shape() const override { return shape_; }
  [[nodiscard]] const TwoStreamConfig& config() const { return config_; }
  [[nodiscard]] std::unique_ptr<SampleForward> forward_on(const OwnTokens& tokens) const override;
  [[nodiscard]] Linear linear(const std::string& name) const { return {weights_, name}; }
  [[nodiscard]] const at::Tensor& weight(const std::string& name) const { return weights_.at(name); }

 private:
  TwoStreamConfig config_;
  ModelShape shape_;
  TensorMap weights_;
};

class TwoStreamForward : public SampleForward {
 public:
  TwoStreamForward(const TwoStream& model, const OwnTokens& tokens) : model_(model), tokens_(tokens) {}

  void prepare(const at::Tensor& patches, double time, std::int64_t label) override {
    const at::Tensor place =
        at::sin(at::arange(tokens_.image.begin, tokens_.image.end, patches.options()) * 0.37);
    image_ = model_.linear("embed")(patches) + time + place.reshape({1, -1, 1});
    text_ = model_.weight("text")[label].narrow(0, tokens_.text.begin, tokens_.text.size()).unsqueeze(0) +
            at::zeros({1, 1, 1}, patches.options());
    joint_ = at::Tensor();
  }
  [[nodiscard]] at::Tensor attention_input(int layer) override {
    return is_double(layer) ? layer_norm(image_) : layer_norm(joint(layer));
  }
  [[nodiscard]] at::Tensor query(int layer) override { return heads(layer, "q"); }
  [[nodiscard]] at::Tensor key(int layer) override { return heads(layer, "k"); }
  [[nodiscard]] at::Tensor value(int layer) override { return heads(layer, "v"); }
  void finish(int layer, const at::Tensor& attended) override {
    const at::Tensor rows = attended.flatten(-2);
    if (is_double(layer)) {
      const auto [text, image] = apart(rows);
      text_ = text_ + model_.linear(name(layer, "text.") + "out")(text);
      image_ = image_ + model_.linear(name(layer, "image.") + "out")(image);
    } else {
      joint_ = joint_ + model_.linear(name(layer, "") + "out")(rows) + beside_;
    }
  }
  void mlp(int layer) override {
    text_ = text_ + feed_forward(name(layer, "text."), text_);
    image_ = image_ + feed_forward(name(layer, "image."), image_);
  }
  void mlp_in(int layer) override {
    beside_ = at::gelu(model_.linear(name(layer, "") + "in")(layer_norm(joint(layer))), "tanh");
  }
  void mlp_out(int layer) override { beside_ = model_.linear(name(layer, "") + "down")(beside_); }
  [[nodiscard]] at::Tensor image_stream() const override {
    return joint_.defined() ? apart(joint_).second : image_;
  }
  [[nodiscard]] at::Tensor last() override { return model_.linear("unembed")(layer_norm(image_stream())); }

 private:
  [[nodiscard]] bool is_double(int layer) const { return layer < model_.config().double_blocks; }
  [[nodiscard]] static std::string name(int layer, const std::string& stream) {
    return "blocks." + std::to_string(layer) + "." + stream;
  }
  [[nodiscard]] at::Tensor together(const at::Tensor& text, const at::Tensor& image) const {
    return model_.config().order == JointOrder::text_image ? at::cat({text, image}, 1)
                                                           : at::cat({image, text}, 1);
  }
  /// Text rows, image rows.
  [[nodiscard]] std::pair<at::Tensor, at::Tensor> apart(const at::Tensor& rows) const {
    const std::int64_t text = tokens_.text.size();
    const std::int64_t image = tokens_.image.size();
    return model_.config().order == JointOrder::text_image
               ? std::pair(rows.narrow(1, 0, text), rows.narrow(1, text, image))
               : std::pair(rows.narrow(1, image, text), rows.narrow(1, 0, image));
  }
  [[nodiscard]] at::Tensor joint(int layer) {
    if (layer == model_.config().double_blocks && !joint_.defined()) {
      joint_ = together(model_.linear("widen")(text_), image_);
    }
    return joint_;
  }
  [[nodiscard]] at::Tensor heads(int layer, const std::string& tensor) {
    const at::Tensor rows = is_double(layer)
                                ? together(model_.linear(name(layer, "text.") + tensor)(layer_norm(text_)),
                                           model_.linear(name(layer, "image.") + tensor)(layer_norm(image_)))
                                : model_.linear(name(layer, "") + tensor)(layer_norm(joint(layer)));
    return rows.unflatten(-1, {-1, kHeadDim});
  }
  [[nodiscard]] at::Tensor feed_forward(const std::string& block, const at::Tensor& x) const {
    return model_.linear(block + "down")(at::gelu(model_.linear(block + "in")(layer_norm(x)), "tanh"));
  }

  const TwoStream& model_;
  OwnTokens tokens_;
  at::Tensor text_;
  at::Tensor image_;
  at::Tensor joint_;   // from the first single block on
  at::Tensor beside_;  // the MLP's
};

inline std::unique_ptr<SampleForward> TwoStream::forward_on(const OwnTokens& tokens) const {
  return std::make_unique<TwoStreamForward>(*this, tokens);
}

class TwoStreamNetwork : public Network {
 public:
  explicit TwoStreamNetwork(const TwoStreamConfig& config)
      : config_(config), shape_(two_stream_shape(config)) {}
  [[nodiscard]] std::string class_name() const override { return "TwoStream"; }
  [[nodiscard]] const ModelShape& shape() const override { return shape_; }
  [[nodiscard]] nlohmann::ordered_json to_json() const override {
    return {{"text_tokens", config_.text_tokens}};
  }
  [[nodiscard]] TensorShapes tensor_shapes() const override {
    TensorShapes shapes;
    add_linear(shapes, "embed", kImageWidth, kPatchElements);
    add_linear(shapes, "widen", kImageWidth, kTextWidth);
    add_linear(shapes, "unembed", kPatchElements, kImageWidth);
    shapes["text"] = {kClasses + 1, config_.text_tokens, kTextWidth};
    for (int layer = 0; layer < shape_.layers(); ++layer) {
      const std::string block = "blocks." + std::to_string(layer) + ".";
      if (layer < config_.double_blocks) {
        add_projections(shapes, block + "text.", kTextWidth);
        add_projections(shapes, block + "image.", kImageWidth);
      } else {
        add_projections(shapes, block, kImageWidth);
      }
    }
    return shapes;
  }
  [[nodiscard]] std::unique_ptr<Model> build(TensorMap weights) const override {
    check_weights(tensor_shapes(), weights);
    return std::make_unique<TwoStream>(config_, std::move(weights));
  }

 private:
  TwoStreamConfig config_;
  ModelShape shape_;
};

inline std::shared_ptr<const Network> read_two_stream(const JsonObject& network) {
  network.only({"text_tokens"});
  TwoStreamConfig config;
  config.text_tokens = network.integer("text_tokens", 1, 1000);
  return std::make_shared<TwoStreamNetwork>(config);
}

inline LoadedModel two_stream_model(const TwoStreamConfig& config = {}) {
  LoadedModel model;
  model.config.network = std::make_shared<TwoStreamNetwork>(config);
  model.config.class_names = {"spots", "stripes", "waves"};
  model.config.channels = {{"u", 0, 1}, {"v", 0, 1}};
  model.config.trained_sizes = {12};
  const at::Generator generator = cpu_generator(3);
  for (const auto& [name, shape] : model.config.network->tensor_shapes()) {
    model.weights[name] = at::randn(shape, generator) * 0.3;
  }
  return model;
}

}  // namespace dit::test
