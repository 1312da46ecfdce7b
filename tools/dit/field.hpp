/// @file
/// Fields that a model makes: as pictures, as files, and how far two of them are apart.
#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "profile/image.hpp"
#include "profile/quality.hpp"
#include "weights/model_files.hpp"

namespace dit::tool {

/// Scales are standard deviations: nearly all of the training data lies within two of them around the mean.
/// Pictures show this range, and PSNR and SSIM refer to it.
inline constexpr double field_low = -2;
inline constexpr double field_high = 2;
inline constexpr double field_range = field_high - field_low;

/// The channel that pictures show: the one named v, else the last one.
[[nodiscard]] std::size_t shown_channel(const ModelConfig& config);
/// Picture of [channels, height, width] in model units, always with the same colours for the same values.
[[nodiscard]] Image picture(const at::Tensor& field, const ModelConfig& config);

/// Both [channels, height, width]. Throws std::invalid_argument when they differ in shape.
[[nodiscard]] Quality quality(const at::Tensor& a, const at::Tensor& b, double range);

/// A file with one tensor, "image", as `dit generate --save-latents` writes it.
void write_field(const std::filesystem::path& path, const at::Tensor& field,
                 std::map<std::string, std::string> text);
struct FieldFile {
  at::Tensor image;
  std::map<std::string, std::string> text;
};
[[nodiscard]] FieldFile read_field(const std::filesystem::path& path);

}  // namespace dit::tool
