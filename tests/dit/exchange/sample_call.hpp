/// A valid call of rank 1 of 4, two ranks a node, for tests to spoil.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "exchange/check_call.hpp"

namespace dit {

struct SampleCall {
  static constexpr std::size_t size = 4;
  static constexpr std::size_t row_bytes = 4;
  static constexpr std::size_t block_bytes = 24;  // 6 rows
  std::array<int, size> levels{0, 0, 1, 1};
  ContextPlace place{1, 2, levels};
  std::vector<std::byte> send_buffer, recv_buffer;
  std::array<dit_block, size> send_blocks, recv_blocks;
  std::array<std::vector<std::uint32_t>, size> send_lists, recv_lists;
  std::array<std::size_t, size> send_counts, recv_counts;
  std::array<const std::uint32_t*, size> send_rows, recv_rows;
  dit_row_selection selection{};
  dit_exchange_call call{};

  SampleCall() : send_buffer(size * block_bytes), recv_buffer(size * block_bytes, std::byte{0xee}) {
    for (std::size_t i = 0; i < send_buffer.size(); ++i) send_buffer[i] = static_cast<std::byte>(i);
    for (std::size_t peer = 0; peer < size; ++peer) {
      send_blocks[peer] = recv_blocks[peer] = {peer * block_bytes, block_bytes};
      send_lists[peer] = {0, 1, 4};
      recv_lists[peer] = {2, 5};
    }
    call.struct_size = sizeof(call);
    call.send = send_buffer.data();
    call.recv = recv_buffer.data();
    call.send_blocks = send_blocks.data();
    call.recv_blocks = recv_blocks.data();
    selection.struct_size = sizeof(selection);
    selection.row_bytes = row_bytes;
    selection.boundary = 1;
    selection.send_counts = send_counts.data();
    selection.send_rows = send_rows.data();
    selection.recv_counts = recv_counts.data();
    selection.recv_rows = recv_rows.data();
    use_lists();
  }
  SampleCall(const SampleCall&) = delete;
  SampleCall& operator=(const SampleCall&) = delete;

  // Points the selection at the lists as they are now.
  void use_lists() {
    for (std::size_t peer = 0; peer < size; ++peer) {
      send_counts[peer] = send_lists[peer].size();
      recv_counts[peer] = recv_lists[peer].size();
      send_rows[peer] = send_lists[peer].data();
      recv_rows[peer] = recv_lists[peer].data();
    }
  }

  // With the selection in the call.
  void select() { call.selection = &selection; }

  [[nodiscard]] std::string check() const { return check_call(&call, place); }
};

}  // namespace dit
