/// Which rows of an exchange's blocks are active, from the active rows of each rank's sequence layout. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dit/exchange.h"
#include "layout/layout.hpp"

namespace dit {

/// Active rows of one rank: a flag for each row of its sequence-layout tensors (sample by sample).
using RowFlags = std::vector<std::uint8_t>;

/// The selection of one tensor's scatter on one rank. Blocks of different peers may have a different number
/// of heads; the interface has one row size for all: it is the largest that divides all of them, and a token
/// is several rows.
class RowSelection {
 public:
  RowSelection(const UlyssesLayout& layout, AttentionTensor tensor, int rank, int group, int groups,
               std::size_t element_bytes);

  /// `active[r]`: rows of rank r. `boundary`: level from which on only these travel. What get() gave before
  /// changes.
  void select(std::span<const RowFlags> active, int boundary);
  /// Null when the exchange carries nothing on any rank.
  [[nodiscard]] const dit_row_selection* get() const;

 private:
  /// One block's rows: which row of its sender each is, and how many rows of the interface it makes.
  struct Block {
    std::vector<std::uint32_t> sender_rows;
    std::uint32_t parts = 0;
  };
  [[nodiscard]] static std::vector<std::uint32_t> active_rows(const Block& block, const RowFlags& active);
  [[nodiscard]] std::uint64_t content_id(std::span<const RowFlags> active, int boundary) const;

  int rank_;
  std::uint64_t shape_id_;  // equal for exchanges whose blocks have equal rows on all ranks
  std::vector<Block> send_, recv_;
  std::vector<std::vector<std::uint32_t>> send_rows_, recv_rows_;
  std::vector<const std::uint32_t*> send_pointers_, recv_pointers_;
  std::vector<std::size_t> send_counts_, recv_counts_;
  dit_row_selection selection_{};
};

}  // namespace dit
