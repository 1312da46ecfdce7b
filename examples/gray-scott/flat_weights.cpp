#include "flat_weights.hpp"

#include <numeric>

namespace dit::gray_scott {

FlatLayout::FlatLayout(const PixelDitConfig& config) {
  for (const auto& [name, shape] : PixelDit::tensor_shapes(config)) {
    names_.push_back(name);
    shapes_.push_back(shape);
    sizes_.push_back(std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
  }
}

at::Tensor FlatLayout::join(const TensorMap& weights) const {
  std::vector<at::Tensor> parts;
  for (const std::string& name : names_) {
    parts.push_back(weights.at(name).flatten());
  }
  return at::cat(parts, 0);
}

TensorMap FlatLayout::split(const at::Tensor& flat) const {
  // One operation, so that one concatenation collects all gradients.
  const std::vector<at::Tensor> parts = flat.split_with_sizes(sizes_, 0);
  TensorMap weights;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    weights[names_[i]] = parts[i].view(shapes_[i]);
  }
  return weights;
}

std::int64_t FlatLayout::elements() const {
  return std::accumulate(sizes_.begin(), sizes_.end(), std::int64_t{0});
}

}  // namespace dit::gray_scott
