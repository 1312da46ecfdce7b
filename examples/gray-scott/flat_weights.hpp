/// All weights of a model in one vector: one gradient, one optimiser state, one average, one conversion to
/// bf16.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <string>
#include <vector>

#include "models/pixel_dit.hpp"

namespace dit::gray_scott {

class FlatLayout {
 public:
  explicit FlatLayout(const PixelDitConfig& config);
  /// Weights by name as one vector; names and shapes are those of the config.
  [[nodiscard]] at::Tensor join(const TensorMap& weights) const;
  /// Views into the vector by name; gradients flow through.
  [[nodiscard]] TensorMap split(const at::Tensor& flat) const;
  [[nodiscard]] std::int64_t elements() const;

 private:
  std::vector<std::string> names_;
  std::vector<std::vector<std::int64_t>> shapes_;
  std::vector<std::int64_t> sizes_;
};

}  // namespace dit::gray_scott
