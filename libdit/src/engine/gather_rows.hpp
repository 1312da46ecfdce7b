/// Rows of a tensor that is spread over the ranks, on rank 0.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "exchange/exchange.hpp"

namespace dit {

/// `own`: [rows_of_rank[rank], columns], contiguous, CPU. All ranks' rows in rank order on rank 0, an empty
/// tensor elsewhere. Collective; `context` null: one rank.
[[nodiscard]] at::Tensor gather_rows(ExchangeContext* context, const at::Tensor& own,
                                     const std::vector<std::int64_t>& rows_of_rank);

}  // namespace dit
