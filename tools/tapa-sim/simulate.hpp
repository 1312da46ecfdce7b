/// @file
/// Runs simulations, several side by side, each in a process of its own.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "world.hpp"

namespace tapa::sim_tool {

/// One process: some contenders under one setting of the simulator's MPI.
struct Simulation {
  std::vector<std::string> contenders;  ///< plans, or "mpi"
  std::vector<std::size_t> bytes;
  std::string selector;  ///< how MPI_Alltoall is carried out; empty where it is not called
};

/// One exchange, as the ranks wrote it.
struct Result {
  std::size_t simulation = 0;  ///< index
  std::string contender;
  std::size_t bytes = 0;
  double seconds = 0;
  double busiest_nic = 0;  ///< bytes that the busiest NIC sent
  double wrong_bytes = 0;
  bool checked = false;
};

struct Limits {
  int jobs = 1;                ///< processes at once
  std::size_t data_limit = 0;  ///< exchanges of more bytes (all ranks' blocks together) run without data
};

/// Called with how many exchanges of all are done.
using OnProgress = std::function<void(std::size_t done, std::size_t all)>;

/// What one process left.
struct Outcome {
  std::vector<Result> results;
  std::string error;  ///< empty when all went well
};

/// Outcomes in the order of `simulations`. Throws std::runtime_error when nothing can be run at all.
[[nodiscard]] std::vector<Outcome> simulate(const sim::Job& machine,
                                            const std::vector<Simulation>& simulations, const Limits& limits,
                                            const OnProgress& on_progress);

}  // namespace tapa::sim_tool
