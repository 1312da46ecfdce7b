/// @file
/// What the report at finalize (TAPA_REPORT=1) is made of: calls, bytes and time for each communicator and
/// class of sizes, those forwarded to MPI with the reason, and now and then MPI's own all-to-all of the same
/// sizes beside a call, for comparison. report_text.hpp makes the text.
#pragma once

#include <array>
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

/// How many calls of a kind with so many bytes per pair have to come for each of the first with MPI beside
/// it, so that these take about 5 % of the time.
[[nodiscard]] constexpr std::uint64_t sample_step(std::size_t bytes_per_pair) {
  return bytes_per_pair < 4096 ? 512 : 64;
}

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
  std::uint64_t bytes = 0;    ///< sent, itself included
  std::uint64_t untimed = 0;  ///< calls that are taken to last as long as others of their kind
  double seconds = 0;         ///< from call to completion, summed; forwarded: inside the calls
  std::vector<Sample> samples;
};

/// How many calls of each kind there were. It asks for no memory, as the ranks of a communicator count alike:
/// where there are more kinds, the last one stands for them.
class KindCounts {
 public:
  [[nodiscard]] std::uint64_t calls(std::string_view function, std::size_t size_class,
                                    std::string_view plan) const noexcept;
  /// Counts one more; how many they are with it.
  std::uint64_t count(std::string_view function, std::size_t size_class, std::string_view plan) noexcept;
  static constexpr std::size_t kKinds = 32;

 private:
  struct Count {
    std::size_t kind;  // a digest
    std::uint64_t calls;
  };
  [[nodiscard]] std::size_t find(std::size_t kind) const noexcept;

  std::array<Count, kKinds> counts_{};
  std::size_t known_ = 0;
  mutable std::size_t last_ = 0;  // what find() has found
};

/// The rows of one communicator. Not thread-safe. Where there is no memory for a row it is left out: what has
/// been carried out does not fail for it.
class Report {
 public:
  /// Counts a call. `forwarded`: why MPI carried it out, or "".
  void count(std::string_view function, std::size_t bytes_per_pair, std::string_view plan,
             std::string_view forwarded, std::size_t bytes, double seconds,
             const std::optional<Sample>& sample) noexcept;

  /// Counts a call that begins, as count() does, but for its time, which takes as long to find out as a
  /// short call's tenth. Returns for how many calls this one's time is to be added (add_time): each of the
  /// first ones for itself, later one in up to eight for all of these; 0: it is not timed.
  [[nodiscard]] std::uint64_t begin(std::string_view function, std::size_t bytes_per_pair,
                                    std::string_view plan, std::size_t bytes) noexcept;
  void add_time(std::string_view function, std::size_t bytes_per_pair, std::string_view plan,
                double seconds) noexcept;

  /// Blocking calls on the communicator so far, counted alike on all of its ranks: by begin(), of the others
  /// by next_blocking().
  [[nodiscard]] std::uint64_t blocking_calls() const { return blocking_calls_; }
  void next_blocking() { ++blocking_calls_; }

  /// Whether MPI is to be run beside a call, which takes as long as many short ones: the n-th, 2n-th, 3n-th,
  /// 4n-th, 8n-th, ... of its kind asked about, n = sample_step(). Alike on all ranks when they ask about the
  /// same calls, so `bytes_per_pair` is one that the ranks agree on (0: none).
  [[nodiscard]] bool sample_due(std::string_view function, std::size_t bytes_per_pair,
                                std::string_view plan) noexcept;
  /// Whether it will say so of the next call; this one is not counted.
  [[nodiscard]] bool sample_is_next(std::string_view function, std::size_t bytes_per_pair,
                                    std::string_view plan) const noexcept;

  /// All rows, with the communicator's name, this process's rank and the number of ranks filled in.
  [[nodiscard]] std::vector<ReportRow> rows(const std::string& communicator, int rank, int ranks) const;

 private:
  /// Index of a row, rows_.size() when there is none.
  [[nodiscard]] std::size_t find(std::string_view function, std::size_t size_class, std::string_view plan,
                                 std::string_view forwarded) const;

  /// The row, made where there is none.
  ReportRow& row(std::string_view function, std::size_t size_class, std::string_view plan,
                 std::string_view forwarded);
  /// Does something to it, where there is memory for it.
  template <class Change>
  void change(std::string_view function, std::size_t bytes_per_pair, std::string_view plan,
              std::string_view forwarded, const Change& change) noexcept;

  std::uint64_t blocking_calls_ = 0;
  std::vector<ReportRow> rows_;
  mutable std::size_t last_ = 0;  // what find() has found
  KindCounts asked_;              // of sample_due()
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
