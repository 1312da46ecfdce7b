#include "profile/heat_maps.hpp"

#include <algorithm>
#include <cmath>

namespace dit {
namespace {

constexpr std::int64_t kPixels = 6;  // of a step, and twice as many of a layer
constexpr float kLowest = -4;        // power of ten

float logarithm(double value) {
  return static_cast<float>(std::log10(std::max(value, 1e-12)));
}

double quantity(const RedundancyCell& cell, std::size_t row) {
  switch (row) {
    case 0:
      return cell.change;
    case 1:
      return cell.expected;
    default:
      return row - 2 < cell.errors.size() ? cell.errors[row - 2] : 0;
  }
}

Image map_of(const RedundancyProfile& profile, AttentionTensor tensor, std::size_t row) {
  const std::int64_t height = profile.layers() * 2 * kPixels;
  const std::int64_t width = profile.steps() * kPixels;
  std::vector<float> field(static_cast<std::size_t>(height * width));
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      const RedundancyCell& cell =
          profile.cell(tensor, static_cast<int>(y / (2 * kPixels)), static_cast<int>(x / kPixels));
      field[static_cast<std::size_t>(y * width + x)] = logarithm(quantity(cell, row));
    }
  }
  return colour_map(field, height, width, kLowest, 0);
}

}  // namespace

std::vector<std::string> heat_map_rows() {
  std::vector<std::string> rows = {"change to the step before", "distance to what momentum expects"};
  for (const WireMode& mode : profiled_modes()) {
    if (!mode.skip) {
      rows.push_back("error of " + to_string(mode));
    }
  }
  return rows;
}

Image heat_maps(const RedundancyProfile& profile) {
  std::vector<Image> maps;
  for (std::size_t row = 0; row < heat_map_rows().size(); ++row) {
    for (const AttentionTensor tensor :
         {AttentionTensor::query, AttentionTensor::key, AttentionTensor::value, AttentionTensor::output}) {
      maps.push_back(map_of(profile, tensor, row));
    }
  }
  return grid(maps, kAttentionTensors);
}

}  // namespace dit
