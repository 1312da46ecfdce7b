#include "models/tensor_map.hpp"

#include <stdexcept>

namespace dit {
namespace {

std::string shape_text(at::IntArrayRef shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

}  // namespace

void check_weights(const TensorShapes& expected, const TensorMap& weights) {
  for (const auto& [name, shape] : expected) {
    const auto found = weights.find(name);
    if (found == weights.end()) {
      throw std::invalid_argument("tensor " + name + " is missing: expected shape " + shape_text(shape));
    }
    if (found->second.sizes() != at::IntArrayRef(shape)) {
      throw std::invalid_argument("tensor " + name + " has shape " + shape_text(found->second.sizes()) +
                                  ": expected " + shape_text(shape));
    }
  }
  for (const auto& [name, tensor] : weights) {
    if (!expected.contains(name)) {
      throw std::invalid_argument("tensor " + name + " with shape " + shape_text(tensor.sizes()) +
                                  " is not part of this model: expected none of that name");
    }
  }
}

TensorMap placed(const TensorMap& weights, const at::TensorOptions& options) {
  TensorMap result;
  for (const auto& [name, tensor] : weights) {
    result[name] = tensor.to(options);
  }
  return result;
}

}  // namespace dit
