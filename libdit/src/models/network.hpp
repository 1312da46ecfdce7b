/// Models without weights, as the files that describe them: what a config.json calls "network", found by its
/// "_class_name".
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/model.hpp"
#include "models/tensor_map.hpp"

namespace dit {

class JsonObject;

class Network {
 public:
  virtual ~Network() = default;
  /// The file's "_class_name".
  [[nodiscard]] virtual std::string class_name() const = 0;
  [[nodiscard]] virtual const ModelShape& shape() const = 0;
  /// What its reader reads.
  [[nodiscard]] virtual nlohmann::ordered_json to_json() const = 0;
  /// Names and shapes of the checkpoint's tensors.
  [[nodiscard]] virtual TensorShapes tensor_shapes() const = 0;
  /// Throws std::invalid_argument as check_weights does. All weights are of one type, on one device.
  [[nodiscard]] virtual std::unique_ptr<Model> build(TensorMap weights) const = 0;
};

/// Reads "network". Strict: throws std::runtime_error that names file, key, value and what was expected.
using NetworkReader = std::shared_ptr<const Network> (*)(const JsonObject& network);
/// By "_class_name".
using NetworkRegistry = std::map<std::string, NetworkReader>;
/// The models that this library has.
[[nodiscard]] NetworkRegistry built_in_networks();

}  // namespace dit
