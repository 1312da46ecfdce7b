// Which rows of which tensor travel between two ranks.
#include <algorithm>

#include "layout/layout.hpp"

namespace dit {
namespace {

// Tokens that lie one after the other in the joint sequence, and where a tensor has the first of them.
struct Stretch {
  Range tokens;
  std::int64_t row = 0;
};

// One head range of a [batch, rows, heads, head_dim] tensor.
struct TensorPart {
  std::int64_t batch = 0;
  std::int64_t rows = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  Range part;
};

Range common(const Range& a, const Range& b) {
  const Range both{std::max(a.begin, b.begin), std::min(a.end, b.end)};
  return both.size() > 0 ? both : Range{};
}

Range shifted(const Range& range, std::int64_t by) {
  return {range.begin + by, range.end + by};
}

// The tokens of a rank's sequence layout as stretches of the joint sequence, in its order. Where only some
// are asked for the other stretch has none.
std::vector<Stretch> sequence_stretches(const UlyssesLayout& layout, int rank,
                                        TokenPart part = TokenPart::all) {
  const AttentionShape& shape = layout.shape();
  const bool text_first = shape.order == JointOrder::text_image;
  const Range text = shifted(layout.text_tokens(rank), text_first ? 0 : shape.image_tokens);
  const Range image = shifted(layout.image_tokens(rank), text_first ? shape.text_tokens : 0);
  const auto wanted = [&](bool is_text, const Range& tokens) {
    const TokenPart own = is_text ? TokenPart::text : TokenPart::image;
    return part == TokenPart::all || part == own ? tokens : Range{tokens.begin, tokens.begin};
  };
  const Range& first = text_first ? text : image;
  const Range& second = text_first ? image : text;
  return {{wanted(text_first, first), 0}, {wanted(!text_first, second), first.size()}};
}

// Whether a rank sends its text rows to `to`: where everybody has them, only to itself.
bool text_travels(const UlyssesLayout& layout, int from, int to) {
  return layout.shape().text == TextPlacement::split || from == to;
}

std::vector<Stretch> without_text(const UlyssesLayout& layout, std::vector<Stretch> stretches) {
  stretches.erase(stretches.begin() + (layout.shape().order == JointOrder::text_image ? 0 : 1));
  return stretches;
}

void append(std::vector<RowRun>& runs, const RowRun& run) {
  if (!runs.empty() && runs.back().offset + runs.back().rows * run.stride == run.offset) {
    runs.back().rows += run.rows;
  } else {
    runs.push_back(run);
  }
}

// Rows of the tokens that are in both, as they lie in `tensor`, whose rows are `stretches`.
PeerBlock block_of(const TensorPart& tensor, const std::vector<Stretch>& stretches, const Range& wanted) {
  PeerBlock block;
  block.row_elements = tensor.part.size() * tensor.head_dim;
  if (block.row_elements == 0) {
    return block;
  }
  const std::int64_t stride = tensor.heads * tensor.head_dim;
  for (std::int64_t sample = 0; sample < tensor.batch; ++sample) {
    for (const Stretch& stretch : stretches) {
      const Range tokens = common(stretch.tokens, wanted);
      if (tokens.size() == 0) {
        continue;
      }
      const std::int64_t row = sample * tensor.rows + stretch.row + tokens.begin - stretch.tokens.begin;
      append(block.runs, {row * stride + tensor.part.begin * tensor.head_dim, tokens.size(), stride});
    }
  }
  return block;
}

// The same rows where the tensor has the tokens `held`, in joint order, and only the heads that travel.
PeerBlock block_in_heads(const AttentionShape& shape, const Range& heads, const Range& held,
                         const std::vector<Stretch>& stretches) {
  const TensorPart tensor{shape.batch, held.size(), heads.size(), shape.head_dim, {0, heads.size()}};
  std::vector<Stretch> rows;
  for (const Stretch& stretch : stretches) {
    const Range tokens = common(stretch.tokens, held);
    rows.push_back({tokens, tokens.begin - held.begin});
  }
  return block_of(tensor, rows, held);
}

}  // namespace

bool UlyssesLayout::scatters_all_rows(AttentionTensor tensor, int from, int to) const {
  if (text_tokens(from).size() > 0 && !text_travels(*this, from, to)) {
    return false;
  }
  const Range wanted = tensor == AttentionTensor::query ? query_tokens(to) : Range{0, tokens()};
  const std::vector<Stretch> rows = sequence_stretches(*this, from);
  return std::all_of(rows.begin(), rows.end(), [&](const Stretch& stretch) {
    return common(stretch.tokens, wanted).size() == stretch.tokens.size();
  });
}

ExchangeLayout UlyssesLayout::scatter_heads(AttentionTensor tensor, int rank, int group, int groups,
                                            TokenPart part) const {
  const bool query = tensor == AttentionTensor::query;
  const auto heads_of = [&](int r) { return query ? heads(r, group, groups) : kv_heads(r, group, groups); };
  const auto tokens_of = [&](int r) { return query ? query_tokens(r) : Range{0, tokens()}; };
  const auto sent_from = [&](int from, int to) {
    std::vector<Stretch> all = sequence_stretches(*this, from, part);
    return text_travels(*this, from, to) ? all : without_text(*this, std::move(all));
  };
  const std::int64_t all_heads = query ? shape_.heads : shape_.kv_heads;
  const Range own_heads = heads_of(rank);
  const Range own_tokens = tokens_of(rank);
  ExchangeLayout layout;
  for (int peer = 0; peer < ranks_; ++peer) {
    const TensorPart source{shape_.batch, sequence_rows(rank), all_heads, shape_.head_dim, heads_of(peer)};
    layout.send.push_back(block_of(source, sent_from(rank, peer), tokens_of(peer)));
    layout.recv.push_back(block_in_heads(shape_, own_heads, own_tokens, sent_from(peer, rank)));
  }
  return layout;
}

ExchangeLayout UlyssesLayout::gather_heads(int rank, int group, int groups, TokenPart part) const {
  const Range own_heads = heads(rank, group, groups);
  const Range own_tokens = query_tokens(rank);
  const std::vector<Stretch> own_rows = sequence_stretches(*this, rank, part);
  ExchangeLayout layout;
  for (int peer = 0; peer < ranks_; ++peer) {
    layout.send.push_back(
        block_in_heads(shape_, own_heads, own_tokens, sequence_stretches(*this, peer, part)));
    const TensorPart target{shape_.batch, sequence_rows(rank), shape_.heads, shape_.head_dim,
                            heads(peer, group, groups)};
    layout.recv.push_back(block_of(target, own_rows, query_tokens(peer)));
  }
  return layout;
}

ExchangeLayout UlyssesLayout::exchange(AttentionTensor tensor, int rank, int group, int groups,
                                       TokenPart tokens) const {
  return tensor == AttentionTensor::output ? gather_heads(rank, group, groups, tokens)
                                           : scatter_heads(tensor, rank, group, groups, tokens);
}

TensorShape UlyssesLayout::sequence_shape(AttentionTensor tensor, int rank) const {
  return {shape_.batch, sequence_rows(rank), has_query_heads(tensor) ? shape_.heads : shape_.kv_heads,
          shape_.head_dim};
}

TensorShape UlyssesLayout::head_shape(AttentionTensor tensor, int rank, int group, int groups) const {
  const bool query = has_query_heads(tensor);
  const Range own = query ? heads(rank, group, groups) : kv_heads(rank, group, groups);
  return {shape_.batch, query ? query_tokens(rank).size() : tokens(), own.size(), shape_.head_dim};
}

}  // namespace dit
