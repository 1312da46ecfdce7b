/// Blocks of a tensor as an exchange plugin takes them where they lie: planes of rows with strides, so that
/// nothing is packed. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "dit/exchange.h"
#include "layout/layout.hpp"

namespace dit {

/// A block as a box: the same rows of samples that follow each other, and some heads.
struct BlockBox {
  std::int64_t sample, samples, row, rows, head, heads;
};
/// Nothing where a block is no box; all 0 where it is empty.
[[nodiscard]] std::optional<BlockBox> box_of(const PeerBlock& block, const TensorShape& shape);

/// A peer's rows, in the order in which they travel, as planes of rows of a tensor; as few and as long ones
/// as there can be. Nothing where two levels of strides are not enough (heads apart in several samples), or
/// where rows lie in each other. The block is of whole heads of a tensor of that shape (wire/pack.hpp).
[[nodiscard]] std::optional<dit_strided_block> strided_block(const PeerBlock& block,
                                                             std::size_t element_bytes,
                                                             const TensorShape& shape,
                                                             const TensorStrides& strides);
/// Those of all peers; nothing when one has none.
[[nodiscard]] std::optional<std::vector<dit_strided_block>> strided_blocks(std::span<const PeerBlock> peers,
                                                                           std::size_t element_bytes,
                                                                           const TensorShape& shape,
                                                                           const TensorStrides& strides);
/// The same for blocks that lie together.
[[nodiscard]] std::vector<dit_strided_block> strided_blocks(std::span<const dit_block> blocks);

/// An exchange as the parts whose blocks are planes of rows on both sides, whatever the ranks: the joint
/// sequence has text and image apart where a rank's sequence layout has them together. The same number on
/// all ranks.
[[nodiscard]] std::vector<ExchangeLayout> strided_parts(const UlyssesLayout& layout, AttentionTensor tensor,
                                                        int rank, int group, int groups);

}  // namespace dit
