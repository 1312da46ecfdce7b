/// Attention shapes in which few numbers of ranks divide anything: batches, text split and replicated, shared
/// heads.
#pragma once

#include <vector>

#include "layout/layout.hpp"

namespace dit::test {

inline std::vector<AttentionShape> uneven_shapes() {
  return {{2, 3, 17, 12, 12, 4},
          {1, 0, 31, 38, 19, 2},
          {2, 5, 9, 3, 1, 2},
          {1, 4, 9, 8, 8, 2, JointOrder::image_text, TextPlacement::replicated}};
}

}  // namespace dit::test
