/// A model's weights by name.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dit {

/// Tensors by checkpoint name.
using TensorMap = std::map<std::string, at::Tensor>;
/// Their shapes.
using TensorShapes = std::map<std::string, std::vector<std::int64_t>>;

/// Every tensor of `expected` must be there in its shape, and no other; throws std::invalid_argument that
/// names the tensor, its shape and the expected one.
void check_weights(const TensorShapes& expected, const TensorMap& weights);

/// All of them in another type or on another device.
[[nodiscard]] TensorMap placed(const TensorMap& weights, const at::TensorOptions& options);

}  // namespace dit
