/// @file
/// An exchange through memory that the ranks of a node share, from the blocks of a call to its end.
#pragma once

#include <cstddef>

#include "run/arguments.hpp"
#include "run/dense_blocks.hpp"
#include "run/shm_blocks.hpp"
#include "run/shm_exchange.hpp"

namespace tapa {

/// Reusable. Precondition of all that begin a run: the buffers are claimed; whoever has claimed them releases
/// them when the run has ended.
class MemoryRun {
 public:
  using Compare = ShmExchange::Compare;

  /// Takes what runs among so many ranks need: then those of equal or dense blocks ask for no memory.
  void reserve(int ranks) {
    exchange_.reserve(static_cast<std::size_t>(ranks));
    send_.reserve(static_cast<std::size_t>(ranks));
    recv_.reserve(static_cast<std::size_t>(ranks));
  }

  /// Equal blocks, those of each side in a row; see ShmExchange::begin().
  void begin_row(ShmBuffers& buffers, const std::byte* send, std::byte* recv, std::size_t bytes) {
    exchange_.begin(buffers, send, recv, bytes);
  }
  /// Whether begin() needs nothing of a call's arguments later: blocks that differ are dense on both sides.
  [[nodiscard]] static bool is_dense(const Arguments& arguments);
  /// Blocks of any sizes and types, which share no memory. `arguments` are checked, and used until the end.
  void begin(ShmBuffers& buffers, const Arguments& arguments, int ranks, Compare compare);
  /// The same in two steps, between which the blocks may be put elsewhere. `exchange` is used until the end.
  /// `known`: see ShmExchange::begin(); `overwrites`: see take_rooms().
  [[nodiscard]] ShmBlocks& describe(const Exchange& exchange);
  void begin_described(ShmBuffers& buffers, bool overlap, bool overwrites, Compare compare, bool known);

  /// See ShmExchange::advance().
  [[nodiscard]] bool advance() { return exchange_.advance(); }
  [[nodiscard]] const ShmExchange& exchange() const { return exchange_; }

 private:
  ShmExchange exchange_;
  DenseBlocks send_;  // of calls that have only such
  DenseBlocks recv_;
  ShmBlocks blocks_;  // of others
  Exchange normal_;   // of a call as it was made
};

}  // namespace tapa
