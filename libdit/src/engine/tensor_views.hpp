/// CPU tensors as transfers see them: memory with a shape and strides.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>

#include "layout/tensor_shape.hpp"
#include "wire/codec.hpp"

namespace dit {

/// Of a [batch, rows, heads, head_dim] tensor; its last dimension must be dense (std::logic_error).
template <typename Byte>
[[nodiscard]] StridedTensor<Byte> strided_view(const at::Tensor& tensor) {
  const TensorShape shape{tensor.size(0), tensor.size(1), tensor.size(2), tensor.size(3)};
  const TensorStrides strides{tensor.stride(0), tensor.stride(1), tensor.stride(2)};
  if (tensor.stride(3) != 1 && shape.head_dim > 1) {
    throw std::logic_error("a tensor whose last dimension is not dense");
  }
  const auto bytes = static_cast<std::size_t>(extent(shape, strides)) * tensor.element_size();
  return {{static_cast<Byte*>(tensor.data_ptr()), bytes}, shape, strides};
}
[[nodiscard]] inline SourceTensor source_view(const at::Tensor& tensor) {
  return strided_view<const std::byte>(tensor);
}
[[nodiscard]] inline TargetTensor target_view(const at::Tensor& tensor) {
  return strided_view<std::byte>(tensor);
}

/// Tensors of which a policy says something: fp32 and bf16. Throws std::logic_error for others.
[[nodiscard]] inline WireElement wire_element(at::ScalarType dtype) {
  if (dtype != at::kFloat && dtype != at::kBFloat16) {
    throw std::logic_error(std::string("wire policy for tensors of ") + c10::toString(dtype));
  }
  return dtype == at::kFloat ? WireElement::fp32 : WireElement::bf16;
}

}  // namespace dit
