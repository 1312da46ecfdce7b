/// @file
/// What ranks tell each other beside a run: that they make the call, counts, checksums.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "carry/choosing.hpp"
#include "comm/comm_state.hpp"
#include "plan/choice.hpp"
#include "plan/counts.hpp"
#include "run/arguments.hpp"
#include "run/small_exchange.hpp"

namespace tapa {

/// One of these at a time.
class CallNumbers {
 public:
  /// That this rank makes the call, so that it can be named who does not.
  void start_arrivals(const Call& call);
  /// All tell all how much they send to them, then the first block whose ends disagree: so all fail alike.
  void start_check(const Call& call);
  void start_verdict(const Call& call);
  /// Throws the CallError that all ranks throw, if some block's ends differ.
  void judge(const CommState& state) const;
  /// A group's ranks tell each other the row and column that a choice needs, in bytes or blocks along edges.
  void start_counts(const Call& call, const Choice& choice, bool blocks);
  /// All numbers that the counts of this rank's part of the plan depend on, and these counts.
  [[nodiscard]] std::vector<std::size_t> numbers() const;
  [[nodiscard]] Counts counts(const CommState& state, const std::vector<std::size_t>& numbers) const;

  /// TAPA_CHECK=data: checksums of the blocks that are sent; `send`: where they lie, dense. Throws CallError.
  void start_sums(const Call& call, std::span<const std::byte* const> send);
  /// Throws CallError where a block that has arrived, at `recv`, has another one.
  void check_sums(const Call& call, std::span<std::byte* const> recv) const;

  /// Whether the numbers of all are there. Throws CallError.
  [[nodiscard]] bool test() { return exchange_.test(); }
  [[nodiscard]] bool pending() const { return exchange_.pending(); }
  void give_up() { exchange_.give_up(); }
  /// Ranks whose numbers are missing, some of them.
  [[nodiscard]] std::vector<int> missing() const { return exchange_.missing(8); }

 private:
  void start(const Call& call, int tag, std::vector<int> members, std::size_t each, bool same);

  SmallExchange exchange_;
  std::vector<std::size_t> outgoing_;
};

}  // namespace tapa
