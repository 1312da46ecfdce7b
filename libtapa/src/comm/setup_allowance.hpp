/// @file
/// What set-ups for persistent requests may cost a program that knows nothing of the library. Pure: no MPI.
#pragma once

#include "comm/newcomer.hpp"

namespace tapa {

/// Who makes a persistent request means to start it often, but MPI does not tell us how often he did: a
/// request that is MPI's stays so. So there the set-up is not paid from the time of earlier calls, but from a
/// share of the time that the process has lived.
class SetupAllowance {
 public:
  /// Whether another set-up, which will take `expected` seconds, keeps all of them below the share that
  /// other calls have in mind too (Newcomer::kPatience). `age`: of the process, in seconds. `hopeless`: a
  /// set-up has never paid in earlier runs.
  [[nodiscard]] bool allows(double expected, double age, bool hopeless = false) const {
    return (hopeless ? Newcomer::kDoubt : 1) * Newcomer::kPatience * (spent_ + expected) <= age;
  }
  /// What one has taken.
  void spend(double seconds) { spent_ += seconds; }

 private:
  double spent_ = 0;
};

}  // namespace tapa
