#include "field.hpp"

#include <stdexcept>

#include "weights/safetensors.hpp"

namespace dit::tool {

namespace {

std::span<const float> values(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

at::Tensor plain(const at::Tensor& tensor) {
  return tensor.to(at::kCPU, at::kFloat).contiguous();
}

std::string shape_text(const at::Tensor& tensor) {
  std::string text;
  for (const auto side : tensor.sizes()) text += (text.empty() ? "" : "x") + std::to_string(side);
  return text;
}

}  // namespace

std::size_t shown_channel(const ModelConfig& config) {
  for (std::size_t i = 0; i < config.channels.size(); ++i) {
    if (config.channels[i].name == "v") return i;
  }
  return config.channels.size() - 1;
}

Image picture(const at::Tensor& field, const ModelConfig& config) {
  const at::Tensor plane = plain(field.select(0, static_cast<std::int64_t>(shown_channel(config))));
  return colour_map(values(plane), plane.size(0), plane.size(1), field_low, field_high);
}

Quality quality(const at::Tensor& a, const at::Tensor& b, double range) {
  if (a.sizes() != b.sizes()) {
    throw std::invalid_argument("the fields have shapes " + shape_text(a) + " and " + shape_text(b) +
                                ", expected the same");
  }
  const at::Tensor left = plain(a);
  const at::Tensor right = plain(b);
  return compare(values(left), values(right), left.size(0), left.size(1), left.size(2), range);
}

void write_field(const std::filesystem::path& path, const at::Tensor& field,
                 std::map<std::string, std::string> text) {
  write_safetensors(path, {{"image", plain(field)}}, text);
}

FieldFile read_field(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  if (!file.contains("image")) {
    throw std::runtime_error(path.string() +
                             ": has no tensor \"image\", expected a file of dit generate --save-latents");
  }
  const at::Tensor image = file.tensor("image");
  if (image.dim() != 3 || image.numel() == 0 || !at::isFloatingType(image.scalar_type())) {
    throw std::runtime_error(path.string() + ": tensor \"image\" is " + at::toString(image.scalar_type()) +
                             " " + shape_text(image) + ", expected floats of channels x height x width");
  }
  return {plain(image), file.metadata()};
}

}  // namespace dit::tool
