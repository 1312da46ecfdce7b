/// Parts of a tensor from all ranks, put together, over an exchange plugin.
#pragma once

#include <ATen/core/Tensor.h>

#include "group.hpp"

namespace dit::operators {

/// Throws std::invalid_argument where x has no such dimension.
void require_dimension(const at::Tensor& x, std::int64_t dim);

/// Every rank has its even part (even_part() of libdit) of `total` on dimension `dim`; all of it, on all
/// ranks, behind what is in the current stream. Throws std::invalid_argument and ExchangeError.
[[nodiscard]] at::Tensor all_gather(Group& group, const at::Tensor& x, std::int64_t dim, std::int64_t total);

}  // namespace dit::operators
