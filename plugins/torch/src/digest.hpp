/// What tensors hold, bit for bit, in 64 bits each: for ranks that compare what they have.
#pragma once

#include <ATen/core/Tensor.h>

namespace dit::operators {

/// A digest of each, [n] int64, on their device, on its current stream. Strides make no difference. Throws
/// std::invalid_argument unless all are on one device.
[[nodiscard]] at::Tensor digests(at::TensorList tensors);

}  // namespace dit::operators
