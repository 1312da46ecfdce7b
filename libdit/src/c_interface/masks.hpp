/// Row masks of all ranks in one piece of memory.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "dit/exchange.h"
#include "layout/layout.hpp"
#include "wire/v_major.hpp"

namespace dit::c_interface {

inline void require_ranks(const UlyssesLayout& layout, int ranks) {
  if (layout.ranks() != ranks) {
    throw std::invalid_argument("layout is for " + std::to_string(layout.ranks()) +
                                " ranks: expected the session's " + std::to_string(ranks));
  }
}

/// Where each rank's mask lies when they follow each other.
class MaskPlaces {
 public:
  explicit MaskPlaces(const UlyssesLayout& layout) {
    for (int rank = 0; rank < layout.ranks(); ++rank) {
      const std::size_t bytes = row_mask_bytes(layout.shape().batch * layout.sequence_rows(rank));
      blocks_.push_back({all_bytes(), bytes});
    }
  }
  [[nodiscard]] const std::vector<dit_block>& blocks() const { return blocks_; }
  [[nodiscard]] std::size_t bytes(int rank) const { return blocks_[static_cast<std::size_t>(rank)].bytes; }
  [[nodiscard]] std::size_t all_bytes() const {
    return blocks_.empty() ? 0 : blocks_.back().offset + blocks_.back().bytes;
  }

 private:
  std::vector<dit_block> blocks_;
};

}  // namespace dit::c_interface
