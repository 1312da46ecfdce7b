/// torch.distributed's all_to_all_single over an exchange plugin.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "group.hpp"

namespace dit::operators {

/// Blocks of two tensors of one type and device, by bytes from their begin. On a device behind what is in the
/// current stream, without waiting. What it sends counts for none of the group's exchanges. Throws
/// ExchangeError. `label`: the call's name in a trace.
void all_to_all_blocks(Group& group, const at::Tensor& output, const at::Tensor& input,
                       const std::vector<dit_block>& send, const std::vector<dit_block>& recv,
                       const char* label);

/// Rows of the first dimension: so many to and from each rank; no splits: even parts. Throws
/// std::invalid_argument and ExchangeError.
void all_to_all_rows(Group& group, const at::Tensor& output, const at::Tensor& input,
                     at::IntArrayRef output_splits, at::IntArrayRef input_splits);

}  // namespace dit::operators
