#include "exchange/select_rows.hpp"

#include <cstring>

namespace dit {
namespace {

// One direction of a call: blocks, and the active rows of them.
struct Side {
  const dit_block* blocks;
  const dit_strided_block* strided;
  const std::size_t* counts;
  const std::uint32_t* const* rows;
};

Side send_side(const dit_exchange_call& call) {
  const dit_row_selection* selection = call.selection;
  return {call.send_blocks, call.send_strided, selection ? selection->send_counts : nullptr,
          selection ? selection->send_rows : nullptr};
}

Side recv_side(const dit_exchange_call& call) {
  const dit_row_selection* selection = call.selection;
  return {call.recv_blocks, call.recv_strided, selection ? selection->recv_counts : nullptr,
          selection ? selection->recv_rows : nullptr};
}

// Rows in ascending order, neighbours joined.
std::vector<ByteRun> runs_of_rows(const dit_block& block, std::span<const std::uint32_t> rows,
                                  std::size_t row_bytes) {
  std::vector<ByteRun> runs;
  for (const std::uint32_t row : rows) {
    const std::size_t offset = block.offset + row * row_bytes;
    if (!runs.empty() && runs.back().offset + runs.back().bytes == offset)
      runs.back().bytes += row_bytes;
    else
      runs.push_back({offset, row_bytes});
  }
  return runs;
}

// Rows in the order of their planes, neighbours joined.
std::vector<ByteRun> runs_of_strides(const dit_strided_block& block) {
  std::vector<ByteRun> runs;
  if (block.row_bytes == 0) return runs;
  for (std::size_t plane = 0; plane < block.planes; ++plane)
    for (std::size_t row = 0; row < block.rows; ++row) {
      const std::size_t offset = block.offset + plane * block.plane_stride + row * block.row_stride;
      if (!runs.empty() && runs.back().offset + runs.back().bytes == offset)
        runs.back().bytes += block.row_bytes;
      else
        runs.push_back({offset, block.row_bytes});
    }
  return runs;
}

std::vector<ByteRun> runs_of(const Side& side, const dit_exchange_call& call, const ContextPlace& place,
                             int peer) {
  const auto index = static_cast<std::size_t>(peer);
  if (side.strided != nullptr) return runs_of_strides(side.strided[index]);
  const dit_block& block = side.blocks[index];
  if (block.bytes == 0) return {};
  if (!rows_selected(call, place, peer)) return {{block.offset, block.bytes}};
  return runs_of_rows(block, {side.rows[index], side.counts[index]}, call.selection->row_bytes);
}

std::size_t bytes_of(const Side& side, const dit_exchange_call& call, const ContextPlace& place, int peer) {
  const auto index = static_cast<std::size_t>(peer);
  return rows_selected(call, place, peer) ? side.counts[index] * call.selection->row_bytes
                                          : block_bytes(side.blocks, side.strided, index);
}

// Lays the blocks of all peers but the rank itself one behind the other; returns the bytes of all.
std::size_t lay_out(const Side& side, const dit_exchange_call& call, const ContextPlace& place,
                    std::vector<dit_block>& blocks) {
  std::size_t end = 0;
  for (int peer = 0; peer < static_cast<int>(place.size()); ++peer) {
    const std::size_t bytes = peer == place.rank ? 0 : bytes_of(side, call, place, peer);
    blocks.push_back({end, bytes});
    end += bytes;
  }
  return end;
}

}  // namespace

std::size_t total_bytes(std::span<const ByteRun> runs) {
  std::size_t bytes = 0;
  for (const ByteRun& run : runs) bytes += run.bytes;
  return bytes;
}

std::size_t block_bytes(const dit_block* blocks, const dit_strided_block* strided, std::size_t peer) {
  if (strided == nullptr) return blocks[peer].bytes;
  return strided[peer].row_bytes * strided[peer].rows * strided[peer].planes;
}

bool rows_selected(const dit_exchange_call& call, const ContextPlace& place, int peer) {
  return call.selection != nullptr && peer != place.rank &&
         place.levels[static_cast<std::size_t>(peer)] >= call.selection->boundary;
}

std::vector<ByteRun> send_runs(const dit_exchange_call& call, const ContextPlace& place, int peer) {
  return runs_of(send_side(call), call, place, peer);
}

std::vector<ByteRun> recv_runs(const dit_exchange_call& call, const ContextPlace& place, int peer) {
  return runs_of(recv_side(call), call, place, peer);
}

std::size_t bytes_to(const dit_exchange_call& call, const ContextPlace& place, int peer) {
  return bytes_of(send_side(call), call, place, peer);
}

std::size_t bytes_from(const dit_exchange_call& call, const ContextPlace& place, int peer) {
  return bytes_of(recv_side(call), call, place, peer);
}

void count_sent(const dit_exchange_call& call, const ContextPlace& place, dit_exchange_totals& totals) {
  for (int peer = 0; peer < static_cast<int>(place.size()); ++peer)
    if (peer != place.rank)
      totals.sent_bytes[place.levels[static_cast<std::size_t>(peer)]] += bytes_to(call, place, peer);
}

void gather_runs(const void* buffer, std::span<const ByteRun> runs, std::byte* packed) {
  for (const ByteRun& run : runs) {
    std::memcpy(packed, static_cast<const std::byte*>(buffer) + run.offset, run.bytes);
    packed += run.bytes;
  }
}

void scatter_runs(const std::byte* packed, std::span<const ByteRun> runs, void* buffer) {
  for (const ByteRun& run : runs) {
    std::memcpy(static_cast<std::byte*>(buffer) + run.offset, packed, run.bytes);
    packed += run.bytes;
  }
}

PackedCall::PackedCall(const dit_exchange_call& call, const ContextPlace& place)
    : send_buffer_(call.send),
      recv_buffer_(call.recv),
      own_send_(call.send_blocks[place.rank]),
      own_recv_(call.recv_blocks[place.rank]) {
  send_.resize(lay_out(send_side(call), call, place, send_blocks_));
  recv_.resize(lay_out(recv_side(call), call, place, recv_blocks_));
  for (int peer = 0; peer < static_cast<int>(place.size()); ++peer) {
    if (peer == place.rank) continue;
    gather_runs(call.send, send_runs(call, place, peer),
                send_.data() + send_blocks_[static_cast<std::size_t>(peer)].offset);
    const std::vector<ByteRun> runs = recv_runs(call, place, peer);
    recv_runs_.insert(recv_runs_.end(), runs.begin(), runs.end());
  }
}

void PackedCall::unpack() const {
  scatter_runs(recv_.data(), recv_runs_, recv_buffer_);
  if (own_send_.bytes > 0)
    std::memcpy(static_cast<std::byte*>(recv_buffer_) + own_recv_.offset,
                static_cast<const std::byte*>(send_buffer_) + own_send_.offset, own_send_.bytes);
}

}  // namespace dit
