#include "wire/row_selection.hpp"

#include <numeric>

namespace dit {
namespace {

/// FNV-1a: an id from contents, the same on all ranks.
class Digest {
 public:
  void add(std::uint64_t value) {
    for (int byte = 0; byte < 8; ++byte) {
      add_byte(static_cast<std::uint8_t>(value >> (8 * byte)));
    }
  }
  void add_byte(std::uint8_t value) { state_ = (state_ ^ value) * 0x100000001b3ULL; }
  [[nodiscard]] std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325ULL;
};

std::int64_t heads_of(const UlyssesLayout& layout, AttentionTensor tensor, int rank, int group, int groups) {
  return (tensor == AttentionTensor::query ? layout.heads(rank, group, groups)
                                           : layout.kv_heads(rank, group, groups))
      .size();
}

/// Heads of which every rank's blocks are a multiple.
std::int64_t common_heads(const UlyssesLayout& layout, AttentionTensor tensor, int group, int groups) {
  std::int64_t common = 0;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    common = std::gcd(common, heads_of(layout, tensor, rank, group, groups));
  }
  return common;
}

}  // namespace

RowSelection::RowSelection(const UlyssesLayout& layout, AttentionTensor tensor, int rank, int group,
                           int groups, std::size_t element_bytes)
    : rank_(rank) {
  const AttentionShape& shape = layout.shape();
  const std::int64_t all_heads = tensor == AttentionTensor::query ? shape.heads : shape.kv_heads;
  const std::int64_t unit = common_heads(layout, tensor, group, groups) * shape.head_dim;
  const auto block_of = [&](const PeerBlock& sent) {  // a block in its sender's tensor
    Block block;
    for (const RowRun& run : sent.runs) {
      for (std::int64_t i = 0; i < run.rows; ++i) {
        block.sender_rows.push_back(
            static_cast<std::uint32_t>((run.offset + i * run.stride) / (all_heads * shape.head_dim)));
      }
    }
    block.parts = unit > 0 ? static_cast<std::uint32_t>(sent.row_elements / unit) : 0;
    return block;
  };
  const ExchangeLayout own = layout.scatter_heads(tensor, rank, group, groups);
  for (int peer = 0; peer < layout.ranks(); ++peer) {
    send_.push_back(block_of(own.send[static_cast<std::size_t>(peer)]));
    const ExchangeLayout theirs = layout.scatter_heads(tensor, peer, group, groups);
    recv_.push_back(block_of(theirs.send[static_cast<std::size_t>(rank)]));
  }
  selection_.struct_size = sizeof(selection_);
  selection_.row_bytes = static_cast<std::size_t>(unit) * element_bytes;

  // Keys and values always go alike; queries go like them where no head is shared.
  const bool alone = tensor == AttentionTensor::query && !layout.queries_go_like_keys();
  Digest digest;
  for (const std::int64_t part :
       {std::int64_t{alone ? 1 : 0}, std::int64_t{group}, std::int64_t{groups}, unit, shape.batch,
        shape.text_tokens, shape.image_tokens, shape.heads, shape.kv_heads,
        static_cast<std::int64_t>(shape.order), static_cast<std::int64_t>(shape.text)}) {
    digest.add(static_cast<std::uint64_t>(part));
  }
  digest.add(element_bytes);
  shape_id_ = digest.value();
}

std::vector<std::uint32_t> RowSelection::active_rows(const Block& block, const RowFlags& active) {
  std::vector<std::uint32_t> rows;
  for (std::size_t i = 0; i < block.sender_rows.size(); ++i) {
    if (active[block.sender_rows[i]] != 0) {
      for (std::uint32_t part = 0; part < block.parts; ++part) {
        rows.push_back(static_cast<std::uint32_t>(i) * block.parts + part);
      }
    }
  }
  return rows;
}

std::uint64_t RowSelection::content_id(std::span<const RowFlags> active, int boundary) const {
  Digest digest;
  digest.add(shape_id_);
  digest.add(static_cast<std::uint64_t>(boundary));
  for (const RowFlags& flags : active) {
    for (const std::uint8_t flag : flags) {
      digest.add_byte(flag);
    }
  }
  return digest.value() == 0 ? 1 : digest.value();  // 0 would mean: do not keep
}

void RowSelection::select(std::span<const RowFlags> active, int boundary) {
  const auto fill = [](std::vector<std::vector<std::uint32_t>>& rows,
                       std::vector<const std::uint32_t*>& pointers, std::vector<std::size_t>& counts) {
    pointers.clear();
    counts.clear();
    for (const auto& list : rows) {
      pointers.push_back(list.data());
      counts.push_back(list.size());
    }
  };
  send_rows_.clear();
  recv_rows_.clear();
  for (std::size_t peer = 0; peer < send_.size(); ++peer) {
    send_rows_.push_back(active_rows(send_[peer], active[static_cast<std::size_t>(rank_)]));
    recv_rows_.push_back(active_rows(recv_[peer], active[peer]));
  }
  fill(send_rows_, send_pointers_, send_counts_);
  fill(recv_rows_, recv_pointers_, recv_counts_);
  selection_.id = content_id(active, boundary);
  selection_.boundary = boundary;
  selection_.send_counts = send_counts_.data();
  selection_.send_rows = send_pointers_.data();
  selection_.recv_counts = recv_counts_.data();
  selection_.recv_rows = recv_pointers_.data();
}

const dit_row_selection* RowSelection::get() const {
  return selection_.row_bytes == 0 ? nullptr : &selection_;
}

}  // namespace dit
