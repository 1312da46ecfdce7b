/// What an exchange plugin must do, as checks that run on any context. Every rank of the context runs them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "exchange/exchange.hpp"
#include "findings.hpp"

namespace dit::conformance {

/// One check. Collective: all ranks make the same exchanges, whatever they find.
struct Check {
  std::string name;
  std::function<void(ExchangeContext&, Findings&)> run;
};

/// All of them, in an order in which later ones rely on earlier ones.
[[nodiscard]] std::vector<Check> all_checks();

// The subjects, a file each.
[[nodiscard]] std::vector<Check> group_checks();      ///< levels, split, totals, describe
[[nodiscard]] std::vector<Check> plain_checks();      ///< exchanges of many shapes, many at once
[[nodiscard]] std::vector<Check> selection_checks();  ///< rows
[[nodiscard]] std::vector<Check> argument_checks();   ///< wrong arguments, of all functions but start
[[nodiscard]] std::vector<Check> call_checks();       ///< wrong calls
[[nodiscard]] std::vector<Check> channel_checks();    ///< channels, exchanges that are given up
[[nodiscard]] std::vector<Check> strided_checks();    ///< blocks that do not lie together
[[nodiscard]] std::vector<Check> overlap_checks();    ///< progress while the rank computes; a report

/// The outcome of a check, the same on all ranks.
struct Result {
  std::string name;
  std::string problem;  ///< "" when passed; "rank 3: ..."
  std::string note;     ///< of this rank
  [[nodiscard]] bool passed() const { return problem.empty(); }
};

/// Runs one check and agrees on its outcome. Throws ExchangeError when the plugin cannot even do that any
/// more.
[[nodiscard]] Result run_check(const Check& check, ExchangeContext& context);

}  // namespace dit::conformance
