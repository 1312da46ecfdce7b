/// @file
/// The part that all benchmarks share: options, header, sizes, validation, timing, rows.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exchange.hpp"
#include "options.hpp"
#include "table.hpp"

namespace tapa::bench {

/// What distinguishes one benchmark from another.
struct Program {
  Kind kind = Kind::alltoall;
  std::string name;          ///< "tapa_alltoall"
  std::string title;         ///< "All-to-All Personalized Exchange Latency Test"
  std::string mpi_variable;  ///< Open MPI's control variable for --versus mpi; empty when it has none
  std::function<std::unique_ptr<Exchange>(MPI_Comm, const Options&)> make;
};

/// Runs a latency benchmark from MPI_Init to MPI_Finalize. Returns the exit code: 0, or 1 when the command
/// line was wrong or data was.
int run_latency(const Program& program, int argc, char** argv);

/// Describes the job. Collective.
[[nodiscard]] Machine describe_machine(MPI_Comm comm);

/// The plan of the library for blocks of rank 0's `bytes`. Collective.
[[nodiscard]] std::string plan_of(MPI_Comm comm, std::size_t bytes);

/// Writes rows to options.json on rank 0; nothing without that option. False, and a message, when it cannot.
[[nodiscard]] bool write_json(const Program& program, const Options& options, const Machine& machine,
                              int rank, const std::vector<VersusRow>& rows);

/// The head of a table: title, datatype, how the NIC bound is made.
[[nodiscard]] std::string preamble(const Program& program, const Options& options);

/// MPI from MPI_Init to MPI_Finalize, with the command line parsed in between.
class Session {
 public:
  Session(const Program& program, int& argc, char**& argv);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] bool ended() const {
    return parsed_.exit_code.has_value();
  }  ///< help, version or an error was printed
  [[nodiscard]] int exit_code() const { return parsed_.exit_code.value_or(0); }
  [[nodiscard]] const Options& options() const { return parsed_.options; }
  [[nodiscard]] const Machine& machine() const { return machine_; }
  [[nodiscard]] int rank() const { return rank_; }
  /// Prints on rank 0, at once.
  void print(const std::string& text) const;

 private:
  bool use_gpu();

  Parsed parsed_;
  Machine machine_;
  int rank_ = 0;
};

}  // namespace tapa::bench
