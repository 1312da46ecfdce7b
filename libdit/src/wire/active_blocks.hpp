/// The blocks of a V-Major step, as they travel: to and from selected peers the row mask of the sender (row i
/// is bit i % 8 of byte i / 8), then the active rows; with others all rows. A block tells by itself which
/// rows it brings, and its size is known to both sides beforehand, so that nobody waits for a mask. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dit/exchange.h"
#include "layout/layout.hpp"

namespace dit {

/// One tensor's scatter on one rank.
class ActiveBlocks {
 public:
  /// `selected`: for each peer, whether only active rows travel between it and this rank. Blocks that hold a
  /// part of their sender's rows (queries, where several ranks share a head; replicated text) travel in full:
  /// how many of those rows are active is the sender's knowledge. `narrow`: the tensor is fp32, and what
  /// travels to and from selected peers is bf16.
  ActiveBlocks(const UlyssesLayout& layout, AttentionTensor tensor, int rank, int group, int groups,
               std::size_t element_bytes, const std::vector<bool>& selected, bool narrow = false);

  /// Of each sample's rows the fraction `ratio` stays (active_row_count): sizes and places of all blocks
  /// follow, one after the other in rank order.
  void set_ratio(double ratio);
  [[nodiscard]] std::span<const dit_block> send_blocks() const { return send_.blocks; }
  [[nodiscard]] std::span<const dit_block> recv_blocks() const { return recv_.blocks; }
  /// Of the blocks that are sent or received at any ratio.
  [[nodiscard]] std::size_t most_send_bytes() const { return send_.most_bytes; }
  [[nodiscard]] std::size_t most_recv_bytes() const { return recv_.most_bytes; }

  /// Tensor -> what is sent. `active`: this rank's rows, ascending, as many of each sample as the ratio says.
  /// Throws std::invalid_argument for another number of them, std::length_error for a short buffer or tensor.
  void pack(std::span<const std::byte> tensor, std::span<const std::uint32_t> active,
            std::span<std::byte> buffer) const;
  /// What was received -> the rows' places among all rows of the blocks; `places` is where each peer's block
  /// begins in `rows` when it has all its rows, one after the other. Other rows stay. Throws
  /// std::invalid_argument that names the peer when a mask has not the rows that the ratio says.
  void unpack(std::span<const std::byte> buffer, std::span<const dit_block> places,
              std::span<std::byte> rows) const;
  /// The active rows of a peer's tensor, from its block in what was received; all where it travels in full.
  [[nodiscard]] std::vector<std::uint32_t> active_rows_of(int peer, std::span<const std::byte> buffer) const;

 private:
  struct Block {
    PeerBlock rows;             // all of them, in the tensor (sender's side)
    std::size_t row_bytes = 0;  // in the tensor
    std::size_t wire_row_bytes = 0;
    std::int64_t count = 0;  // all rows
    std::int64_t sample_rows = 0;
    bool selected = false;
    [[nodiscard]] bool narrow() const { return wire_row_bytes != row_bytes; }
  };
  struct Side {
    std::vector<Block> of_peer;
    std::vector<dit_block> blocks;
    std::size_t most_bytes = 0;
  };
  [[nodiscard]] std::int64_t active_count(const Block& block) const;
  [[nodiscard]] std::size_t bytes_of(const Block& block, std::int64_t active) const;
  void place(Side& side) const;
  static void put_rows(const Block& block, std::span<const std::byte> rows, std::byte* to);
  static void take_rows(const Block& block, const std::byte* from, std::span<std::byte> rows);
  [[nodiscard]] std::vector<std::uint32_t> read_mask(int peer, std::span<const std::byte> buffer) const;

  std::int64_t batch_;
  std::size_t element_bytes_;
  double ratio_ = 0;
  Side send_, recv_;
};

}  // namespace dit
