/// @file
/// Collective steps in which one rank may fail alone, as it may where it has no memory: all learn it before
/// the next one.
#pragma once

#include <mpi.h>

#include <concepts>
#include <exception>

#include "run/on_all_ranks.hpp"

namespace tapa {

/// A rank has failed in a step, which says why; the others all throw this. Needs no memory.
class FailedElsewhere : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override { return "another rank has failed in it"; }
};

class JointSteps {
 public:
  /// From here on ranks tell each other, over `comm`.
  void begin(MPI_Comm comm) { comm_ = comm; }
  /// Before a collective step. Collective itself from begin() on. Throws FailedElsewhere, CallError where MPI
  /// fails.
  void meet() const {
    if (comm_ != MPI_COMM_NULL && !on_all_ranks(comm_, true)) throw FailedElsewhere();
  }
  /// All steps. Throws what they throw, and FailedElsewhere on the other ranks.
  template <std::invocable Steps>
  void run(const Steps& steps) const {
    try {
      steps();
    } catch (const FailedElsewhere&) {
      throw;
    } catch (...) {
      if (comm_ != MPI_COMM_NULL) static_cast<void>(on_all_ranks(comm_, false));
      throw;
    }
    meet();
  }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace tapa
