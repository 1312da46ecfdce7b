/// Who holds which tokens and which heads before and after an exchange. Pure: every rank computes every
/// rank's part from the same few numbers, so that nothing is negotiated at run time.
///
/// Sequence layout: a rank holds some tokens with all heads:    [batch, own tokens, heads, head_dim]
/// Head layout:     a rank holds some heads with all tokens:    [batch, tokens, own heads, head_dim]
///
/// With more ranks than heads several ranks share a head: each then attends for a part of the queries and
/// holds the keys and values of all tokens ("gathered K/V"), which travel in the same exchange.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layout/tensor_shape.hpp"

namespace dit {

/// Half-open range of tokens, heads or rows.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] std::int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// Part `index` of `count` when `total` things are dealt out evenly: sizes differ by at most one, and the
/// larger parts are spread over all of them (floor(total * index / count)), so that no node gets all of the
/// larger ones.
[[nodiscard]] Range even_part(std::int64_t total, std::int64_t count, std::int64_t index);

/// Where text tokens stand in the joint sequence.
enum class JointOrder { text_image, image_text };
/// Who holds text tokens in the sequence layout: each rank a part, or every rank all of them.
enum class TextPlacement { split, replicated };
/// What to do with more ranks than heads.
enum class BeyondHeads { gather_kv, refuse };

struct AttentionShape {
  std::int64_t batch = 1;
  std::int64_t text_tokens = 0;
  std::int64_t image_tokens = 0;
  std::int64_t heads = 0;     ///< query heads
  std::int64_t kv_heads = 0;  ///< key and value heads; divides `heads`
  std::int64_t head_dim = 0;
  JointOrder order = JointOrder::text_image;
  TextPlacement text = TextPlacement::split;
  bool operator==(const AttentionShape&) const = default;
};

/// A row is one token's slice of a block; runs of rows at equal distance, in elements from a tensor's start.
struct RowRun {
  std::int64_t offset = 0;  ///< of the first row
  std::int64_t rows = 0;
  std::int64_t stride = 0;  ///< between rows
  bool operator==(const RowRun&) const = default;
};

/// What goes to, or comes from, one peer.
struct PeerBlock {
  std::int64_t row_elements = 0;  ///< elements of one row, contiguous
  std::vector<RowRun> runs;       ///< rows in the order in which they travel
  [[nodiscard]] std::int64_t rows() const;
  [[nodiscard]] std::int64_t elements() const { return rows() * row_elements; }
  bool operator==(const PeerBlock&) const = default;
};

/// One exchange as one rank sees it. Row i that p sends to q is the row i that q receives from p.
struct ExchangeLayout {
  std::vector<PeerBlock> send;  ///< for each peer, in this rank's source tensor
  std::vector<PeerBlock> recv;  ///< from each peer, in this rank's target tensor
};

/// Which tokens of an exchange: all, or those of one part of the joint sequence.
enum class TokenPart { all, text, image };

/// Attention's inputs, then its output.
enum class AttentionTensor : std::uint8_t { query, key, value, output };
inline constexpr int kAttentionTensors = 4;
/// Whether a tensor has the query heads: query and output; key and value have the others.
[[nodiscard]] constexpr bool has_query_heads(AttentionTensor tensor) {
  return tensor == AttentionTensor::query || tensor == AttentionTensor::output;
}

/// The layouts of one attention call on `ranks` ranks. Throws std::invalid_argument that names the argument,
/// its value and what was expected; in refuse mode with more ranks than heads also the largest useful rank
/// count.
class UlyssesLayout {
 public:
  UlyssesLayout(const AttentionShape& shape, int ranks, BeyondHeads beyond = BeyondHeads::gather_kv);

  [[nodiscard]] const AttentionShape& shape() const { return shape_; }
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] std::int64_t tokens() const { return shape_.text_tokens + shape_.image_tokens; }

  /// Tokens that a rank holds in the sequence layout, numbered within text and within image.
  [[nodiscard]] Range text_tokens(int rank) const;
  [[nodiscard]] Range image_tokens(int rank) const;
  /// Both together: rows of the rank's sequence-layout tensors, in the joint order.
  [[nodiscard]] std::int64_t sequence_rows(int rank) const;

  /// Query heads that a rank attends for; `group` of `groups` is a part of them (may be empty).
  [[nodiscard]] Range heads(int rank, int group = 0, int groups = 1) const;
  /// The key and value heads that those need.
  [[nodiscard]] Range kv_heads(int rank, int group = 0, int groups = 1) const;
  /// Tokens of the joint sequence that a rank attends for: all, unless several ranks share a head.
  [[nodiscard]] Range query_tokens(int rank) const;

  /// Whether queries are scattered in blocks as large as those of keys: no head is shared.
  [[nodiscard]] bool queries_go_like_keys() const {
    return ranks_ <= shape_.heads && shape_.heads == shape_.kv_heads;
  }

  /// Whether what `from` scatters to `to` has all its rows, in their order: not where text is replicated or
  /// several ranks share a head's queries.
  [[nodiscard]] bool scatters_all_rows(AttentionTensor tensor, int from, int to) const;

  /// Sequence layout -> head layout. Target: [batch, tokens (query: query_tokens), heads of the group,
  /// head_dim].
  [[nodiscard]] ExchangeLayout scatter_heads(AttentionTensor tensor, int rank, int group = 0, int groups = 1,
                                             TokenPart tokens = TokenPart::all) const;
  /// Head layout -> sequence layout of the attention's output. Source: [batch, query_tokens, heads of the
  /// group, head_dim]; target: [batch, sequence_rows, heads, head_dim], of which the groups fill disjoint
  /// parts.
  [[nodiscard]] ExchangeLayout gather_heads(int rank, int group = 0, int groups = 1,
                                            TokenPart tokens = TokenPart::all) const;
  /// One or the other: queries, keys and values are scattered, the output is gathered.
  [[nodiscard]] ExchangeLayout exchange(AttentionTensor tensor, int rank, int group = 0, int groups = 1,
                                        TokenPart tokens = TokenPart::all) const;

  /// Shapes of a rank's tensors: all heads of some tokens, and a group's heads of all tokens (query and
  /// output: of query_tokens).
  [[nodiscard]] TensorShape sequence_shape(AttentionTensor tensor, int rank) const;
  [[nodiscard]] TensorShape head_shape(AttentionTensor tensor, int rank, int group = 0, int groups = 1) const;

 private:
  AttentionShape shape_;
  int ranks_ = 1;
};

}  // namespace dit
