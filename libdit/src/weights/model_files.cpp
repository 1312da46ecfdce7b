#include "weights/model_files.hpp"

#include <stdexcept>

#include "files/output_file.hpp"
#include "json/strict_json.hpp"
#include "weights/embedded_model.hpp"
#include "weights/safetensors.hpp"

namespace dit {
namespace {

constexpr std::size_t kMostConfigBytes = 1 << 20;
constexpr const char* kConfigName = "config.json";
constexpr const char* kWeightsName = "model.safetensors";

/// Memory of its own: the file may go, and training changes weights in place.
TensorMap to_float(const TensorMap& tensors, const std::string& where) {
  TensorMap result;
  for (const auto& [name, tensor] : tensors) {
    if (!at::isFloatingType(tensor.scalar_type())) {
      throw std::runtime_error(where + ": tensor " + name + " is " + at::toString(tensor.scalar_type()) +
                               ", expected floating-point numbers");
    }
    result[name] = tensor.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
  }
  return result;
}

/// Weights of another network are a broken file, whoever reads it.
void require_fit(const LoadedModel& model) {
  try {
    check_weights(model.config.network->tensor_shapes(), model.weights);
  } catch (const std::invalid_argument& error) {
    throw std::runtime_error(model.origin + ": " + error.what());
  }
}

LoadedModel load_embedded() {
  const std::optional<EmbeddedModel> files = embedded_model();
  if (!files) {
    throw std::runtime_error(
        "this build has no embedded model: name a folder with config.json and model.safetensors "
        "(or build again with DIT_EMBEDDED_MODEL set to one)");
  }
  const std::string config(reinterpret_cast<const char*>(files->config.data()), files->config.size());
  const SafetensorsFile file("embedded model.safetensors", files->weights.data(), files->weights.size());
  TensorMap tensors;
  for (const TensorEntry& entry : file.entries()) {
    tensors[entry.name] = file.tensor(entry.name);
  }
  LoadedModel model{parse_model_config(config, "embedded config.json"),
                    to_float(tensors, "embedded model.safetensors"), "embedded"};
  require_fit(model);
  return model;
}

std::filesystem::path weights_of(const std::filesystem::path& folder) {
  const std::filesystem::path whole = folder / kWeightsName;
  const std::filesystem::path index = folder / (std::string(kWeightsName) + ".index.json");
  if (std::filesystem::exists(whole)) {
    return whole;
  }
  if (std::filesystem::exists(index)) {
    return index;
  }
  throw std::runtime_error(folder.string() + ": no " + kWeightsName + " and no " + index.filename().string() +
                           ", expected one of them");
}

}  // namespace

LoadedModel load_model(const std::filesystem::path& folder, const NetworkRegistry& networks) {
  if (folder.empty()) {
    return load_embedded();
  }
  if (!std::filesystem::is_directory(folder)) {
    throw std::runtime_error(folder.string() +
                             ": not a folder, expected one with config.json and model.safetensors");
  }
  const std::filesystem::path config = folder / kConfigName;
  LoadedModel model;
  model.config = parse_model_config(read_text_file(config, kMostConfigBytes), config.string(), networks);
  model.weights = to_float(read_checkpoint(weights_of(folder)), folder.string());
  model.origin = folder.string();
  require_fit(model);
  return model;
}

void save_model(const std::filesystem::path& folder, const ModelConfig& config, const TensorMap& weights,
                const std::map<std::string, std::string>& metadata, const NetworkRegistry& networks) {
  const std::string text = to_json(config);
  // What cannot be read again is not written.
  static_cast<void>(parse_model_config(text, (folder / kConfigName).string(), networks));
  std::filesystem::create_directories(folder);
  write_safetensors(folder / kWeightsName, weights, metadata);
  files::write_file(folder / kConfigName, [&](std::ostream& file) { file << text; });
}

}  // namespace dit
