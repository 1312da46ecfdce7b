/// Exchanges of which every rank knows every byte, so that it can tell what is wrong with what it got.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "exchange/exchange.hpp"

namespace dit::conformance {

/// Well-mixed bits of some numbers: for shapes and contents that look random and are the same on all ranks.
[[nodiscard]] std::uint64_t mix(std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0,
                                std::uint64_t d = 0);

/// Which rows of which blocks: everything that the ranks must agree on.
struct Shape {
  static constexpr int no_selection = -1;
  std::function<std::size_t(int sender, int receiver)> rows;  ///< of a block
  std::size_t row_bytes = 1;
  int boundary = no_selection;       ///< a level: the exchange selects rows
  std::uint64_t selection_id = 0;    ///< of dit_row_selection
  std::uint64_t selection_seed = 0;  ///< which rows are active; the same for the same id
};

/// Active rows of a block at its sender, or at its receiver: as many, but others.
[[nodiscard]] std::vector<std::uint32_t> active_rows(const Shape& shape, int sender, int receiver,
                                                     bool at_sender);

/// One rank's side of an exchange, with buffers. Blocks lie in reverse order of the ranks, with gaps between
/// them.
class KnownExchange {
 public:
  /// Contents differ for each seed.
  KnownExchange(const ExchangeContext& context, Shape shape, std::uint64_t seed);
  KnownExchange(const KnownExchange&) = delete;
  KnownExchange& operator=(const KnownExchange&) = delete;

  [[nodiscard]] const dit_exchange_call& call() const { return call_; }
  [[nodiscard]] dit_exchange_call& call() { return call_; }
  /// What is wrong with the buffers after the exchange; "" when every byte, in the blocks and between them,
  /// is as it should be.
  [[nodiscard]] std::string problem() const;
  /// Bytes that this rank sends to others, by the level of the peer.
  [[nodiscard]] std::vector<std::uint64_t> sent_bytes() const;

 private:
  [[nodiscard]] bool selected(int peer) const;
  void fill_in_call();
  [[nodiscard]] std::vector<std::byte> expected() const;
  [[nodiscard]] std::string describe_byte(std::size_t offset, std::byte expected) const;

  Shape shape_;
  std::uint64_t seed_;
  int rank_;
  std::vector<int> levels_;  // of each peer
  int level_count_;
  std::vector<dit_block> send_blocks_, recv_blocks_;
  std::vector<std::byte> send_, sent_copy_, recv_;
  std::vector<std::vector<std::uint32_t>> send_lists_, recv_lists_;
  std::vector<std::size_t> send_counts_, recv_counts_;
  std::vector<const std::uint32_t*> send_rows_, recv_rows_;
  dit_row_selection selection_{};
  dit_exchange_call call_{};
};

/// Exchanges and gives KnownExchange::problem.
[[nodiscard]] std::string exchange_problem(ExchangeContext& context, const Shape& shape, std::uint64_t seed);

}  // namespace dit::conformance
