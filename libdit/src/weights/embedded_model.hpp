/// The model that was built into the library, if any.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace dit {

struct EmbeddedModel {
  std::span<const std::byte> config;   ///< config.json
  std::span<const std::byte> weights;  ///< model.safetensors
};
[[nodiscard]] std::optional<EmbeddedModel> embedded_model();

}  // namespace dit
