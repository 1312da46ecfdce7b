#include "profile/image.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "profile/check_image.hpp"
#include "profile/viridis.hpp"

namespace dit {
namespace {

constexpr std::uint8_t kWhite = 255;

std::string size_text(const Image& image) {
  return std::to_string(image.width) + " x " + std::to_string(image.height);
}

void check_same_size(const Image& a, const Image& b, const std::string& what) {
  if (a.width != b.width || a.height != b.height) {
    throw std::invalid_argument(what + " is " + size_text(b) + " pixels: expected " + size_text(a) +
                                ", as the first");
  }
}

void check_side(const char* name, std::int64_t value) {
  if (value < 1 || value > kMostImagePixels) {
    throw std::invalid_argument(std::string(name) + " = " + std::to_string(value) + ": expected 1 to " +
                                std::to_string(kMostImagePixels));
  }
}

std::uint32_t viridis(float value, float low, float high) {
  const float part = (value - low) / (high - low);
  const float place = std::clamp(part, 0.0F, 1.0F) * static_cast<float>(kViridis.size());
  return kViridis[std::min(static_cast<std::size_t>(place), kViridis.size() - 1)];
}

}  // namespace

void check_image(const Image& image, const std::string& what) {
  if (image.width < 1 || image.width > kMostImagePixels || image.height < 1 ||
      image.height > kMostImagePixels) {
    throw std::invalid_argument(what + " is " + size_text(image) + " pixels: expected 1 to " +
                                std::to_string(kMostImagePixels) + " a side");
  }
  const auto expected = static_cast<std::size_t>(image.width * image.height * 3);
  if (image.rgb.size() != expected) {
    throw std::invalid_argument(what + " has " + std::to_string(image.rgb.size()) + " values: expected " +
                                std::to_string(expected) + " for " + size_text(image) + " pixels");
  }
}

Image colour_map(std::span<const float> field, std::int64_t height, std::int64_t width, float low,
                 float high) {
  check_side("height", height);
  check_side("width", width);
  if (field.size() != static_cast<std::size_t>(height * width)) {
    throw std::invalid_argument("field has " + std::to_string(field.size()) + " values: expected " +
                                std::to_string(height * width));
  }
  if (!(low < high) || !std::isfinite(high - low)) {
    throw std::invalid_argument("low = " + std::to_string(low) + ", high = " + std::to_string(high) +
                                ": expected low < high");
  }
  Image image{width, height, {}};
  image.rgb.reserve(field.size() * 3);
  for (const float value : field) {
    const std::uint32_t colour = std::isnan(value) ? 0xffffff : viridis(value, low, high);
    for (const int shift : {16, 8, 0}) {
      image.rgb.push_back(static_cast<std::uint8_t>(colour >> shift & 0xff));
    }
  }
  return image;
}

Image grid(const std::vector<Image>& images, std::int64_t columns, std::int64_t gap) {
  if (images.empty()) {
    throw std::invalid_argument("images: none, expected at least 1");
  }
  check_side("columns", columns);
  if (gap < 0 || gap > kMostImagePixels) {
    throw std::invalid_argument("gap = " + std::to_string(gap) + ": expected 0 to " +
                                std::to_string(kMostImagePixels));
  }
  for (std::size_t i = 0; i < images.size(); ++i) {
    check_image(images[i], "image " + std::to_string(i));
    check_same_size(images[0], images[i], "image " + std::to_string(i));
  }
  const auto count = static_cast<std::int64_t>(images.size());
  columns = std::min(columns, count);
  const std::int64_t rows = (count + columns - 1) / columns;
  const std::int64_t width = images[0].width;
  const std::int64_t height = images[0].height;
  Image result{columns * (width + gap) - gap, rows * (height + gap) - gap, {}};
  check_side("width of the grid", result.width);
  check_side("height of the grid", result.height);
  result.rgb.assign(static_cast<std::size_t>(result.width * result.height * 3), kWhite);
  for (std::int64_t i = 0; i < count; ++i) {
    const Image& image = images[static_cast<std::size_t>(i)];
    const std::int64_t left = i % columns * (width + gap);
    const std::int64_t top = i / columns * (height + gap);
    for (std::int64_t y = 0; y < height; ++y) {
      std::copy_n(image.rgb.begin() + y * width * 3, width * 3,
                  result.rgb.begin() + ((top + y) * result.width + left) * 3);
    }
  }
  return result;
}

Image difference(const Image& a, const Image& b, double gain) {
  check_image(a, "image a");
  check_image(b, "image b");
  check_same_size(a, b, "image b");
  if (!(gain > 0) || !std::isfinite(gain)) {
    throw std::invalid_argument("gain = " + std::to_string(gain) + ": expected a number above 0");
  }
  Image result{a.width, a.height, std::vector<std::uint8_t>(a.rgb.size())};
  std::transform(a.rgb.begin(), a.rgb.end(), b.rgb.begin(), result.rgb.begin(), [gain](int x, int y) {
    return static_cast<std::uint8_t>(std::min(255.0, std::round(std::abs(x - y) * gain)));
  });
  return result;
}

}  // namespace dit
