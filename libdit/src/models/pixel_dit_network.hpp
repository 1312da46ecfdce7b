/// PixelDit as a file describes it.
#pragma once

#include <memory>

#include "models/network.hpp"
#include "models/pixel_dit.hpp"

namespace dit {

inline constexpr const char* kPixelDitClass = "PixelDit";

/// Throws as check(config) does.
[[nodiscard]] std::shared_ptr<const Network> pixel_dit_network(const PixelDitConfig& config);
[[nodiscard]] std::shared_ptr<const Network> read_pixel_dit(const JsonObject& network);
/// Throws std::invalid_argument that names the class of a network that is no PixelDit.
[[nodiscard]] const PixelDitConfig& pixel_dit_config(const Network& network);

}  // namespace dit
