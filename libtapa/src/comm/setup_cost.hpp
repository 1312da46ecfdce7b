/// @file
/// What setting up a communicator is expected to take. Pure: no MPI.
#pragma once

#include <algorithm>

namespace tapa {

class SetupCost {
 public:
  /// The first one detects the machine, and each rank tells the others what it found: 7 ms with 32 ranks on
  /// 32 cores.
  static constexpr double kFirst = 5e-3;
  static constexpr double kFirstOfRank = 0.125e-3;
  static constexpr double kLeast = 1e-3;

  /// Seconds for a communicator of so many ranks: as the last one took, and longer where there are more
  /// ranks.
  [[nodiscard]] double expected(int ranks) const {
    if (ranks_ == 0) return kFirst + ranks * kFirstOfRank;
    return seconds_ * std::max(1.0, static_cast<double>(ranks) / ranks_);
  }
  /// What one has taken.
  void note(int ranks, double seconds) {
    ranks_ = std::max(ranks, 1);
    seconds_ = std::max(seconds, kLeast);
  }

 private:
  int ranks_ = 0;  // of the last one; 0: there was none
  double seconds_ = 0;
};

}  // namespace tapa
