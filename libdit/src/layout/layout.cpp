#include "layout/layout.hpp"

#include <stdexcept>

namespace dit {
namespace {

// Elements of a whole tensor, with room for their bytes and for a rank's share of them in 64 bits.
constexpr std::int64_t kMostElements = std::int64_t{1} << 56;

void require_at_least(const char* name, std::int64_t value, std::int64_t least) {
  if (value < least) {
    throw std::invalid_argument(std::string(name) + " = " + std::to_string(value) + ": expected at least " +
                                std::to_string(least));
  }
}

void require_moderate_size(const AttentionShape& shape) {
  std::int64_t left = kMostElements;
  for (const std::int64_t factor : {shape.batch, shape.heads, shape.head_dim}) {
    left /= factor;
  }
  if (shape.text_tokens > left || shape.image_tokens > left - shape.text_tokens) {
    throw std::invalid_argument(
        "batch * (text_tokens + image_tokens) * heads * head_dim = " + std::to_string(shape.batch) + " * (" +
        std::to_string(shape.text_tokens) + " + " + std::to_string(shape.image_tokens) + ") * " +
        std::to_string(shape.heads) + " * " + std::to_string(shape.head_dim) + ": expected at most 2^56");
  }
}

void require_shape(const AttentionShape& shape) {
  require_at_least("batch", shape.batch, 1);
  require_at_least("text_tokens", shape.text_tokens, 0);
  require_at_least("image_tokens", shape.image_tokens, 0);
  require_at_least("heads", shape.heads, 1);
  require_at_least("kv_heads", shape.kv_heads, 1);
  require_at_least("head_dim", shape.head_dim, 1);
  if (shape.heads % shape.kv_heads != 0) {
    throw std::invalid_argument("kv_heads = " + std::to_string(shape.kv_heads) +
                                ": expected a divisor of heads = " + std::to_string(shape.heads));
  }
  require_moderate_size(shape);
}

void require_rank(int rank, int ranks) {
  if (rank < 0 || rank >= ranks) {
    throw std::invalid_argument("rank = " + std::to_string(rank) + ": expected 0 to " +
                                std::to_string(ranks - 1));
  }
}

void require_group(int group, int groups) {
  require_at_least("groups", groups, 1);
  if (group < 0 || group >= groups) {
    throw std::invalid_argument("group = " + std::to_string(group) + ": expected 0 to " +
                                std::to_string(groups - 1));
  }
}

// The first rank that attends head `head` when there are more ranks than heads: ceil(head * ranks / heads).
std::int64_t first_rank_of(std::int64_t head, std::int64_t heads, std::int64_t ranks) {
  return (head * ranks + heads - 1) / heads;
}

}  // namespace

std::int64_t PeerBlock::rows() const {
  std::int64_t sum = 0;
  for (const RowRun& run : runs) {
    sum += run.rows;
  }
  return sum;
}

UlyssesLayout::UlyssesLayout(const AttentionShape& shape, int ranks, BeyondHeads beyond)
    : shape_(shape), ranks_(ranks) {
  require_shape(shape);
  require_at_least("ranks", ranks, 1);
  if (beyond == BeyondHeads::refuse && ranks > shape.heads) {
    throw std::invalid_argument("ranks = " + std::to_string(ranks) + ": expected at most " +
                                std::to_string(shape.heads) +
                                ", the largest useful count: each rank attends for at least one of " +
                                std::to_string(shape.heads) + " heads");
  }
}

Range UlyssesLayout::text_tokens(int rank) const {
  require_rank(rank, ranks_);
  return shape_.text == TextPlacement::split ? even_part(shape_.text_tokens, ranks_, rank)
                                             : Range{0, shape_.text_tokens};
}

Range UlyssesLayout::image_tokens(int rank) const {
  require_rank(rank, ranks_);
  return even_part(shape_.image_tokens, ranks_, rank);
}

std::int64_t UlyssesLayout::sequence_rows(int rank) const {
  return text_tokens(rank).size() + image_tokens(rank).size();
}

Range UlyssesLayout::heads(int rank, int group, int groups) const {
  require_rank(rank, ranks_);
  require_group(group, groups);
  Range own = even_part(shape_.heads, ranks_, rank);
  if (ranks_ > shape_.heads) {
    own = {own.begin, own.begin + 1};  // shared with neighbours
  }
  const Range part = even_part(own.size(), groups, group);
  return {own.begin + part.begin, own.begin + part.end};
}

Range UlyssesLayout::kv_heads(int rank, int group, int groups) const {
  const Range own = heads(rank, group, groups);
  const std::int64_t sharing = shape_.heads / shape_.kv_heads;  // query heads of one kv head
  if (own.size() == 0) {
    return {own.begin / sharing, own.begin / sharing};
  }
  return {own.begin / sharing, (own.end - 1) / sharing + 1};
}

Range UlyssesLayout::query_tokens(int rank) const {
  require_rank(rank, ranks_);
  if (ranks_ <= shape_.heads) {
    return {0, tokens()};
  }
  const std::int64_t head = heads(rank).begin;
  const std::int64_t first = first_rank_of(head, shape_.heads, ranks_);
  const std::int64_t end = first_rank_of(head + 1, shape_.heads, ranks_);
  return even_part(tokens(), end - first, rank - first);
}

}  // namespace dit
