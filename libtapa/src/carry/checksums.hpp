/// @file
/// TAPA_CHECK=data: checksums of all blocks, told beside them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "comm/call_order.hpp"
#include "comm/comm_state.hpp"
#include "run/arguments.hpp"
#include "run/small_exchange.hpp"

namespace tapa {

class Checksums {
 public:
  /// Tells those of the blocks that are sent; `send`: where they lie, dense. Throws CallError.
  void start(const CommState& state, const TagWindow& tags, const Exchange& exchange,
             std::span<const std::byte* const> send);
  /// Whether those of all others are there. Throws CallError.
  [[nodiscard]] bool test() { return sums_.test(); }
  /// Throws CallError where a block that has arrived, at `recv`, has another one.
  void check(int rank, const Exchange& exchange, std::span<std::byte* const> recv) const;

  [[nodiscard]] bool pending() const { return sums_.pending(); }
  void give_up() { sums_.give_up(); }
  [[nodiscard]] std::vector<int> missing() const { return sums_.missing(8); }

 private:
  SmallExchange sums_;
};

}  // namespace tapa
