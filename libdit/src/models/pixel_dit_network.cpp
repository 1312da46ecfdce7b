#include "models/pixel_dit_network.hpp"

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "json/json_object.hpp"

namespace dit {
namespace {

class PixelDitNetwork : public Network {
 public:
  explicit PixelDitNetwork(const PixelDitConfig& config) : config_(config), shape_(shape_of(config)) {}
  [[nodiscard]] const PixelDitConfig& config() const { return config_; }

  [[nodiscard]] std::string class_name() const override { return kPixelDitClass; }
  [[nodiscard]] const ModelShape& shape() const override { return shape_; }
  [[nodiscard]] nlohmann::ordered_json to_json() const override {
    return {
        {"channels", config_.channels}, {"patch", config_.patch},         {"width", config_.width},
        {"heads", config_.heads},       {"head_dim", config_.head_dim},   {"layers", config_.layers},
        {"classes", config_.classes},   {"mlp_ratio", config_.mlp_ratio}, {"rope_theta", config_.rope_theta}};
  }
  [[nodiscard]] TensorShapes tensor_shapes() const override { return PixelDit::tensor_shapes(config_); }
  [[nodiscard]] std::unique_ptr<Model> build(TensorMap weights) const override {
    return std::make_unique<PixelDit>(config_, std::move(weights));
  }

 private:
  PixelDitConfig config_;
  ModelShape shape_;
};

}  // namespace

std::shared_ptr<const Network> pixel_dit_network(const PixelDitConfig& config) {
  check(config);
  return std::make_shared<PixelDitNetwork>(config);
}

std::shared_ptr<const Network> read_pixel_dit(const JsonObject& network) {
  network.only(
      {"channels", "patch", "width", "heads", "head_dim", "layers", "classes", "mlp_ratio", "rope_theta"});
  PixelDitConfig config;
  config.channels = network.integer("channels", 1, 1024);
  config.patch = network.integer("patch", 1, 256);
  config.width = network.integer("width", 1, 65536);
  config.heads = network.integer("heads", 1, 4096);
  config.head_dim = network.integer("head_dim", 4, 4096);
  if (config.head_dim % 4 != 0) {
    network.fail("head_dim", "a multiple of 4");
  }
  config.layers = network.integer("layers", 1, 1000);
  config.classes = network.integer("classes", 1, 100000);
  config.mlp_ratio = network.integer("mlp_ratio", 1, 64);
  config.rope_theta =
      network.number("rope_theta", "a number above 1", [](double theta) { return theta > 1; });
  return pixel_dit_network(config);
}

const PixelDitConfig& pixel_dit_config(const Network& network) {
  const auto* const ours = dynamic_cast<const PixelDitNetwork*>(&network);
  if (ours == nullptr) {
    throw std::invalid_argument("the model is of class " + network.class_name() + ": expected " +
                                kPixelDitClass);
  }
  return ours->config();
}

}  // namespace dit
