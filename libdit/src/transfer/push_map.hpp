/// Where the rows of a scattered tensor go when they are stored right into the tensors of the ranks that
/// attend for them. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "layout/layout.hpp"

namespace dit {

/// Rows and heads of this rank's source, of every sample, that one rank wants; its target has them from row
/// `target_row` and head 0 on.
struct PushPart {
  int peer = 0;
  Range rows;
  Range heads;
  std::int64_t target_row = 0;
  bool operator==(const PushPart&) const = default;
};

/// A row may have several parts: ranks that share keys and values. At most two for each rank.
[[nodiscard]] std::vector<PushPart> push_parts(const UlyssesLayout& layout, AttentionTensor tensor, int rank,
                                               int group, int groups);

}  // namespace dit
