/// Contiguous CPU tensors as bytes.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <span>

namespace dit {

[[nodiscard]] inline std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}
[[nodiscard]] inline std::span<std::byte> writable_bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

}  // namespace dit
