/// @file
/// When a communicator of a program that knows nothing of the library is set up. Pure: no MPI.
#pragma once

#include <cstdint>

namespace tapa {

/// Counts what MPI takes for the blocking all-to-alls of a communicator that is not set up. Now and then rank
/// 0 tells the others whether the set-up pays, so that all do the same: in the first call, where options may
/// ask for it, and later in calls whose number all ranks know.
class Newcomer {
 public:
  /// A communicator is set up when its all-to-alls have taken so many times as long as the set-up will take:
  /// a communicator that is made, used a few times and freed costs what it costs in MPI.
  static constexpr double kPatience = 20;

  /// Whether the ranks agree in the next call: calls 0, 1, 3, 15, 63, 255, ...
  [[nodiscard]] bool asks() const { return calls_ == next_; }

  /// Rank 0's answer; `setup_seconds`: what a set-up takes.
  [[nodiscard]] bool worth(double setup_seconds) const { return spent_ > kPatience * setup_seconds; }

  /// The ranks have agreed to wait.
  void wait_on() { next_ = next_ == 0 ? 1 : next_ == 1 ? 3 : 4 * next_ + 3; }

  /// MPI carries a call out; counted before, as a program's error handler may jump out of it.
  void count() { ++calls_; }
  /// What it took.
  void spend(double seconds) { spent_ += seconds; }

  [[nodiscard]] std::uint64_t calls() const { return calls_; }

 private:
  std::uint64_t calls_ = 0;
  std::uint64_t next_ = 0;
  double spent_ = 0;
};

}  // namespace tapa
