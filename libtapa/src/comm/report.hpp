/// @file
/// What the report at finalize (TAPA_REPORT=1) is made of: calls, bytes and time for each communicator and
/// class of sizes, those forwarded to MPI with the reason, and now and then MPI's own all-to-all of the same
/// sizes beside a call, for comparison. report_text.hpp makes the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tapa {

/// A call beside which MPI's own all-to-all was run, both begun by all ranks together. Seconds.
struct Sample {
  double tapa = 0;
  double mpi = 0;
};

/// Calls of one function on one communicator, in one class of sizes, with one plan or for one reason
/// forwarded to MPI. Of this rank.
struct ReportRow {
  std::string communicator;  ///< the name that the program gave it, or its ranks
  int rank = 0;              ///< this process's rank in it
  int ranks = 0;
  std::string function;        ///< "TAPA_Alltoall", ...
  std::size_t size_class = 0;  ///< bytes per pair, rounded down to a power of two (0 stays 0)
  std::string plan;            ///< "" where no plan was asked for
  std::string forwarded;       ///< why MPI carried them out; "": it did not
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;  ///< sent, itself included
  double seconds = 0;       ///< from call to completion, summed; forwarded: inside the calls
  std::vector<Sample> samples;
  std::uint64_t asked = 0;  ///< calls that sample_due() was asked about
};

/// The rows of one communicator. Not thread-safe.
class Report {
 public:
  /// Counts a call. `forwarded`: why MPI carried it out, or "".
  void count(std::string_view function, std::size_t bytes_per_pair, std::string_view plan,
             std::string_view forwarded, std::size_t bytes, double seconds,
             const std::optional<Sample>& sample);

  /// Whether MPI is to be run beside a call: the 4th, 8th, 16th, ... of its kind asked about. Alike on all
  /// ranks when they ask about the same calls, so `bytes_per_pair` is one that the ranks agree on (0: none).
  [[nodiscard]] bool sample_due(std::string_view function, std::size_t bytes_per_pair, std::string_view plan);
  /// Whether it will say so of the next call; this one is not counted.
  [[nodiscard]] bool sample_is_next(std::string_view function, std::size_t bytes_per_pair,
                                    std::string_view plan) const;

  /// All rows, with the communicator's name, this process's rank and the number of ranks filled in.
  [[nodiscard]] std::vector<ReportRow> rows(const std::string& communicator, int rank, int ranks) const;

 private:
  /// Index of a row, rows_.size() when there is none.
  [[nodiscard]] std::size_t find(std::string_view function, std::size_t size_class, std::string_view plan,
                                 std::string_view forwarded) const;

  /// The row, made where there is none.
  ReportRow& row(std::string_view function, std::size_t size_class, std::string_view plan,
                 std::string_view forwarded);

  std::vector<ReportRow> rows_;
};

/// Rows of many communicators: alike ones become one, and of communicators whose names differ in numbers only
/// no more than kMostAlike are told apart (the others have "*" in place of the numbers), so that programs
/// that make and free ever more of them do not fill the memory.
class ReportRows {
 public:
  static constexpr std::size_t kMostAlike = 8;
  void add(ReportRow row);
  [[nodiscard]] const std::vector<ReportRow>& rows() const { return rows_; }

 private:
  std::vector<ReportRow> rows_;
};

/// Keeps the rows of a communicator that ends, or of a call forwarded to MPI on one that has no state, for
/// report_rows().
void keep_rows(std::vector<ReportRow> rows);

/// Forgets them.
void forget_rows();

/// What keep_rows() has kept.
[[nodiscard]] std::vector<ReportRow> kept_rows();

/// Rows of all communicators, those that ended first, counted while option "report" was on.
[[nodiscard]] std::vector<ReportRow> report_rows();

}  // namespace tapa
