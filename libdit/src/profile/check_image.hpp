/// Whether an image is one.
#pragma once

#include <string>

#include "profile/image.hpp"

namespace dit {

constexpr std::int64_t kMostImagePixels = 16384;  ///< a side

/// Throws std::invalid_argument that names `what` unless sides are in range and there are as many values as
/// pixels.
void check_image(const Image& image, const std::string& what);

}  // namespace dit
