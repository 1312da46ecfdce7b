/// @file
/// Rows as text, in the columns of the OSU micro-benchmarks, and as JSON. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "statistics.hpp"

namespace tapa::bench {

/// Which optional columns a table has.
struct Columns {
  bool full = false;
  bool validation = false;
  bool nic_bound = false;
  bool overlap = false;       ///< of --versus
  bool floor = false;         ///< of --versus
  std::string rival = "MPI";  ///< of --versus: whose times stand beside ours
};

/// One line of a latency table: times in microseconds, averages over ranks of each rank's mean.
struct LatencyRow {
  std::size_t bytes = 0;
  double average = 0, min = 0, max = 0;
  std::size_t iterations = 0;
  bool valid = true;
  double nic_bound = 0;
};

/// One line of an overlap table, in microseconds and percent, as OSU's nonblocking benchmarks print it.
struct OverlapRow {
  std::size_t bytes = 0;
  double overall = 0, compute = 0, init = 0, test = 0, wait = 0;
  double communication = 0, min_communication = 0, max_communication = 0;
  double overlap = 0;
  bool valid = true;
};

/// A contender and what it needed, seconds, each sample the slowest rank's.
struct Candidate {
  std::string name;  ///< "TAPA", a plan's text, or the name of MPI's algorithm
  bool ours = false;
  Summary time;
  std::optional<double> overlap;  ///< percent, of nonblocking calls
};

/// One line of --versus: the library's own choice (the first candidate that is ours) against the best of
/// MPI's.
struct VersusRow {
  std::size_t bytes = 0;
  std::vector<Candidate> candidates;
  std::string plan;                 ///< the library's choice for this size
  std::optional<double> nic_bound;  ///< seconds
  std::optional<double> floor;      ///< seconds of the bare copies inside a node, see floor.hpp
  bool valid = true;

  [[nodiscard]] const Candidate& ours() const;
  /// The fastest of MPI's by median.
  [[nodiscard]] const Candidate& best_of_mpi() const;
  /// best_of_mpi over ours: above 1, ours is faster.
  [[nodiscard]] double ratio() const { return best_of_mpi().time.median / ours().time.median; }
};

/// The machine and the job, for the head of tables and JSON files.
struct Machine {
  std::string host;  ///< of rank 0
  std::string mpi;   ///< first line of MPI_Get_library_version
  std::string date;  ///< UTC, ISO 8601
  int ranks = 0;
  int nodes = 0;             ///< sets of ranks that share memory
  std::vector<int> node_of;  ///< node of each rank, numbered by first rank
  int processors = 0;        ///< online in rank 0's node
};

[[nodiscard]] std::string latency_header(const Columns& columns);
[[nodiscard]] std::string latency_line(const LatencyRow& row, const Columns& columns);
[[nodiscard]] std::string overlap_header(const Columns& columns);
[[nodiscard]] std::string overlap_line(const OverlapRow& row, const Columns& columns);
[[nodiscard]] std::string versus_header(const Columns& columns);
/// The row, and below it one comment line for each forced plan.
[[nodiscard]] std::string versus_line(const VersusRow& row, const Columns& columns);

/// {"machine": {...}, "benchmark": ..., "rows": [{"bytes", "tapa_us", "mpi_us", "ratio", "plan",
/// "tapa_spread", "mpi_spread", "mpi_algorithm", "nic_bound_us", "floor_us", "candidates": [...]}]}
[[nodiscard]] std::string versus_json(const std::string& benchmark, const Machine& machine,
                                      const std::vector<VersusRow>& rows);

}  // namespace tapa::bench
