/// A model as files: config.json beside its weights, or the one that is embedded in the library.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "models/pixel_dit.hpp"

namespace dit {

/// Values of a channel of training data, for pictures and for the way back to physical units: x = (value -
/// mean) / scale.
struct ChannelScale {
  std::string name;
  double mean = 0;
  double scale = 1;
};

/// What a config.json says ("_class_name": "PixelDit"): the network, its classes and its data.
struct ModelConfig {
  PixelDitConfig network;
  std::vector<std::string> class_names;     ///< `network.classes` of them
  std::vector<ChannelScale> channels;       ///< `network.channels` of them
  std::vector<std::int64_t> trained_sizes;  ///< image sides, pixels
  std::string scheduler = "flow_match_euler";
  double guidance = 2.0;  ///< default guidance scale
  int steps = 50;         ///< default
};
/// Strict: unknown keys, wrong types and values are errors that name the key, its value and what was
/// expected.
[[nodiscard]] ModelConfig parse_model_config(const std::string& json, const std::string& where);
[[nodiscard]] std::string to_json(const ModelConfig& config);

struct LoadedModel {
  ModelConfig config;
  TensorMap weights;   ///< fp32
  std::string origin;  ///< path, or "embedded"
};
/// A folder with config.json and model.safetensors (or its index); "" means the embedded one. Throws
/// std::runtime_error that names the file, also when the weights are not those of the config's network.
[[nodiscard]] LoadedModel load_model(const std::filesystem::path& folder);
void save_model(const std::filesystem::path& folder, const ModelConfig& config, const TensorMap& weights,
                const std::map<std::string, std::string>& metadata);

/// Class number of a name or of a number as text; an unknown one is an error that lists the names.
[[nodiscard]] int class_named(const ModelConfig& config, const std::string& text);

}  // namespace dit
