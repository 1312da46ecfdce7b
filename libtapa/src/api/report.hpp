/// @file
/// Counters that the report at finalize is made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tapa {

/// Calls of one function on one communicator, in one class of sizes, with one plan. Of this rank.
struct ReportRow {
  std::string communicator;  ///< its MPI name, or "" when it has none
  int ranks = 0;
  std::string function;        ///< "TAPA_Alltoall", ...
  std::size_t size_class = 0;  ///< bytes per pair, rounded down to a power of two (0 stays 0)
  std::string plan;
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;  ///< sent, itself included
  double seconds = 0;       ///< from call to completion, summed
};

/// Rows of all communicators that live, counted while option "report" is on.
[[nodiscard]] std::vector<ReportRow> report_rows();

}  // namespace tapa
