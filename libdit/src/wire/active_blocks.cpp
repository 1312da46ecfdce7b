#include "wire/active_blocks.hpp"

#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>

#include "wire/codec.hpp"
#include "wire/pack.hpp"
#include "wire/v_major.hpp"

namespace dit {
namespace {

void require_bytes(const char* what, std::size_t bytes, std::size_t needed) {
  if (bytes < needed) {
    throw std::length_error(std::string(what) + " has " + std::to_string(bytes) + " bytes: expected " +
                            std::to_string(needed));
  }
}

std::size_t end_of(std::span<const dit_block> blocks) {
  return blocks.empty() ? 0 : blocks.back().offset + blocks.back().bytes;
}

void require_count(const char* what, std::span<const std::uint32_t> rows, std::int64_t count) {
  if (static_cast<std::int64_t>(rows.size()) != count) {
    throw std::invalid_argument(std::string(what) + " has " + std::to_string(rows.size()) +
                                " active rows: expected " + std::to_string(count));
  }
}

/// Whether the block's rows are all rows of its sender's tensor, in their order.
bool has_all_rows(const PeerBlock& block, std::int64_t tensor_row_elements, std::int64_t tensor_rows) {
  std::int64_t expected = 0;
  for (const RowRun& run : block.runs) {
    for (std::int64_t i = 0; i < run.rows; ++i, ++expected) {
      if ((run.offset + i * run.stride) / tensor_row_elements != expected) return false;
    }
  }
  return expected == tensor_rows;
}

/// Copies the rows `active` of all rows of a block, as they lie in its tensor, one after the other.
void copy_active(const PeerBlock& rows, std::size_t element_bytes, std::span<const std::byte> tensor,
                 std::span<const std::uint32_t> active, std::byte* to) {
  const std::size_t row_bytes = static_cast<std::size_t>(rows.row_elements) * element_bytes;
  std::int64_t first = 0;  // row of the run
  auto next = active.begin();
  for (const RowRun& run : rows.runs) {
    for (; next != active.end() && *next < first + run.rows; ++next, to += row_bytes) {
      const std::int64_t element = run.offset + (static_cast<std::int64_t>(*next) - first) * run.stride;
      std::memcpy(to, tensor.data() + static_cast<std::size_t>(element) * element_bytes, row_bytes);
    }
    first += run.rows;
  }
}

}  // namespace

ActiveBlocks::ActiveBlocks(const UlyssesLayout& layout, AttentionTensor tensor, int rank, int group,
                           int groups, std::size_t element_bytes, const std::vector<bool>& selected,
                           bool narrow)
    : batch_(layout.shape().batch), element_bytes_(element_bytes) {
  const AttentionShape& shape = layout.shape();
  const std::int64_t tensor_row =
      (tensor == AttentionTensor::query ? shape.heads : shape.kv_heads) * shape.head_dim;
  const auto block_from = [&](int sender, int receiver, bool active_only) {
    const ExchangeLayout of_sender = layout.scatter_heads(tensor, sender, group, groups);
    Block block;
    block.rows = of_sender.send[static_cast<std::size_t>(receiver)];
    block.count = block.rows.rows();
    block.row_bytes = static_cast<std::size_t>(block.rows.row_elements) * element_bytes_;
    block.wire_row_bytes = narrow && active_only ? block.row_bytes / 2 : block.row_bytes;
    block.sample_rows = layout.sequence_rows(sender);
    block.selected = active_only && block.row_bytes > 0 && block.count > 0 &&
                     has_all_rows(block.rows, tensor_row, batch_ * block.sample_rows);
    return block;
  };
  for (int peer = 0; peer < layout.ranks(); ++peer) {
    const bool active_only = selected[static_cast<std::size_t>(peer)];
    send_.of_peer.push_back(block_from(rank, peer, active_only));
    recv_.of_peer.push_back(block_from(peer, rank, active_only));
  }
  for (Side* side : {&send_, &recv_}) {
    for (const Block& block : side->of_peer) {
      side->most_bytes += bytes_of(block, block.count);
    }
  }
  set_ratio(0);
}

std::int64_t ActiveBlocks::active_count(const Block& block) const {
  return block.selected ? batch_ * active_row_count(block.sample_rows, ratio_) : block.count;
}

std::size_t ActiveBlocks::bytes_of(const Block& block, std::int64_t active) const {
  const std::size_t mask = block.selected ? row_mask_bytes(block.count) : 0;
  return mask + static_cast<std::size_t>(active) * block.wire_row_bytes;
}

void ActiveBlocks::place(Side& side) const {
  side.blocks.clear();
  std::size_t offset = 0;
  for (const Block& block : side.of_peer) {
    side.blocks.push_back({offset, bytes_of(block, active_count(block))});
    offset += side.blocks.back().bytes;
  }
}

void ActiveBlocks::set_ratio(double ratio) {
  ratio_ = ratio;
  place(send_);
  place(recv_);
}

/// Rows of the tensor's type, one after the other, as they travel.
void ActiveBlocks::put_rows(const Block& block, std::span<const std::byte> rows, std::byte* to) {
  if (!block.narrow()) {
    std::memcpy(to, rows.data(), rows.size());
    return;
  }
  std::vector<float> values(rows.size() / sizeof(float));
  std::memcpy(values.data(), rows.data(), rows.size());
  store_elements(values, WireElement::bf16, {to, rows.size() / 2});
}

void ActiveBlocks::take_rows(const Block& block, const std::byte* from, std::span<std::byte> rows) {
  if (!block.narrow()) {
    std::memcpy(rows.data(), from, rows.size());
    return;
  }
  std::vector<float> values(rows.size() / sizeof(float));
  load_elements({from, rows.size() / 2}, WireElement::bf16, values);
  std::memcpy(rows.data(), values.data(), rows.size());
}

void ActiveBlocks::pack(std::span<const std::byte> tensor, std::span<const std::uint32_t> active,
                        std::span<std::byte> buffer) const {
  require_bytes("the send buffer", buffer.size(), end_of(send_.blocks));
  std::vector<std::uint8_t> mask;  // the same for all peers
  for (std::size_t peer = 0; peer < send_.of_peer.size(); ++peer) {
    const Block& block = send_.of_peer[peer];
    const std::span<std::byte> to = buffer.subspan(send_.blocks[peer].offset, send_.blocks[peer].bytes);
    if (!block.selected) {
      std::vector<std::byte> whole(block.narrow() ? to.size() * 2 : 0);
      const std::span<std::byte> packed = block.narrow() ? std::span(whole) : to;
      dit::pack(std::span(&block.rows, 1), element_bytes_, tensor, packed);
      if (block.narrow()) put_rows(block, whole, to.data());
      continue;
    }
    if (mask.empty()) {
      require_count("active", active, active_count(block));
      mask = rows_to_mask(active, block.count);
    }
    require_in_tensor(std::span(&block.rows, 1), element_bytes_, tensor.size());
    std::memcpy(to.data(), mask.data(), mask.size());
    std::vector<std::byte> rows(block.narrow() ? active.size() * block.row_bytes : 0);
    std::byte* const at = to.data() + mask.size();
    copy_active(block.rows, element_bytes_, tensor, active, block.narrow() ? rows.data() : at);
    if (block.narrow()) put_rows(block, rows, at);
  }
}

std::vector<std::uint32_t> ActiveBlocks::read_mask(int peer, std::span<const std::byte> buffer) const {
  const Block& block = recv_.of_peer[static_cast<std::size_t>(peer)];
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(
      buffer.data() + recv_.blocks[static_cast<std::size_t>(peer)].offset);
  try {
    std::vector<std::uint32_t> rows = mask_to_rows({bytes, row_mask_bytes(block.count)}, block.count);
    require_count("row mask", rows, active_count(block));
    return rows;
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument("from rank " + std::to_string(peer) + ": " + error.what());
  }
}

std::vector<std::uint32_t> ActiveBlocks::active_rows_of(int peer, std::span<const std::byte> buffer) const {
  const Block& block = recv_.of_peer[static_cast<std::size_t>(peer)];
  require_bytes("the receive buffer", buffer.size(), end_of(recv_.blocks));
  if (block.selected) {
    return read_mask(peer, buffer);
  }
  std::vector<std::uint32_t> all(static_cast<std::size_t>(batch_ * block.sample_rows));
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

void ActiveBlocks::unpack(std::span<const std::byte> buffer, std::span<const dit_block> places,
                          std::span<std::byte> rows) const {
  require_bytes("the receive buffer", buffer.size(), end_of(recv_.blocks));
  for (std::size_t peer = 0; peer < recv_.of_peer.size(); ++peer) {
    const Block& block = recv_.of_peer[peer];
    if (block.count == 0 || block.row_bytes == 0) {
      continue;
    }
    require_bytes("the rows", rows.size(),
                  places[peer].offset + static_cast<std::size_t>(block.count) * block.row_bytes);
    const std::byte* from = buffer.data() + recv_.blocks[peer].offset;
    std::byte* to = rows.data() + places[peer].offset;
    if (!block.selected) {
      take_rows(block, from, {to, static_cast<std::size_t>(block.count) * block.row_bytes});
      continue;
    }
    const std::vector<std::uint32_t> active = read_mask(static_cast<int>(peer), buffer);
    from += row_mask_bytes(block.count);
    std::vector<std::byte> wide(block.narrow() ? active.size() * block.row_bytes : 0);
    if (block.narrow()) {
      take_rows(block, from, wide);
      from = wide.data();
    }
    for (const std::uint32_t row : active) {
      std::memcpy(to + row * block.row_bytes, from, block.row_bytes);
      from += block.row_bytes;
    }
  }
}

}  // namespace dit
