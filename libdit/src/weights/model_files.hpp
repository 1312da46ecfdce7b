/// A model as files: config.json beside its weights, or the one that is embedded in the library.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/network.hpp"

namespace dit {

/// Values of a channel of training data, for pictures and for the way back to physical units: x = (value -
/// mean) / scale.
struct ChannelScale {
  std::string name;
  double mean = 0;
  double scale = 1;
};

/// What a config.json says: the network ("_class_name" and "network"), its classes and its data.
struct ModelConfig {
  std::shared_ptr<const Network> network;   ///< never null in a config that was read
  std::vector<std::string> class_names;     ///< of each class of the network
  std::vector<ChannelScale> channels;       ///< of each channel of the network
  std::vector<std::int64_t> trained_sizes;  ///< image sides, pixels
  std::string scheduler = "flow_match_euler";
  double guidance = 2.0;  ///< default guidance scale
  int steps = 50;         ///< default
};
/// Strict: unknown keys, wrong types and values are errors that name the key, its value and what was
/// expected. `networks`: the models that can be read, by "_class_name".
[[nodiscard]] ModelConfig parse_model_config(const std::string& json, const std::string& where,
                                             const NetworkRegistry& networks = built_in_networks());
[[nodiscard]] std::string to_json(const ModelConfig& config);

struct LoadedModel {
  ModelConfig config;
  TensorMap weights;   ///< fp32
  std::string origin;  ///< path, or "embedded"
};
/// A folder with config.json and model.safetensors (or its index); "" means the embedded one. Throws
/// std::runtime_error that names the file, also when the weights are not those of the config's network.
[[nodiscard]] LoadedModel load_model(const std::filesystem::path& folder,
                                     const NetworkRegistry& networks = built_in_networks());
void save_model(const std::filesystem::path& folder, const ModelConfig& config, const TensorMap& weights,
                const std::map<std::string, std::string>& metadata,
                const NetworkRegistry& networks = built_in_networks());

/// Class number of a name or of a number as text; an unknown one is an error that lists the names.
[[nodiscard]] int class_named(const ModelConfig& config, const std::string& text);

}  // namespace dit
