/// torch.distributed's all_to_all_single over an exchange plugin.
#pragma once

#include <ATen/core/Tensor.h>

#include "group.hpp"

namespace dit::operators {

/// Rows of the first dimension: so many to and from each rank; no splits: even parts. On a device behind what
/// is in the current stream, without waiting. Throws std::invalid_argument and ExchangeError.
void all_to_all_rows(Group& group, const at::Tensor& output, const at::Tensor& input,
                     at::IntArrayRef output_splits, at::IntArrayRef input_splits);

}  // namespace dit::operators
