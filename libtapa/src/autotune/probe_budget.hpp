/// @file
/// What probing may cost in a program that did not ask for it. Pure; alike on all ranks, as times are agreed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tapa {

/// Of a communicator: its all-to-alls may have taken longer than MPI's by a share of their time, whenever the
/// program stops. What faster plans have saved is there to be spent.
class ProbeBudget {
 public:
  /// Of the time that all-to-alls have taken.
  static constexpr double kShare = 0.01;

  /// Without limit.
  ProbeBudget() = default;
  /// `spent`: seconds of all-to-alls so far, MPI's own.
  explicit ProbeBudget(double spent) : limited_(true), total_(spent) {}

  [[nodiscard]] bool limited() const { return limited_; }

  /// Calls have taken so many seconds, and so many more (or fewer: negative) than MPI would have.
  void pay(double seconds, double more) {
    total_ += seconds;
    more_ += more;
  }

  /// How many calls of `seconds` each, where MPI would take `mpi`, pay for `cost` seconds more than MPI's.
  [[nodiscard]] std::uint64_t calls_before(double cost, double seconds, double mpi) const {
    const double missing = more_ + cost - kShare * total_;
    if (!limited_ || missing <= 0) return 0;
    const double each = kShare * seconds + (mpi - seconds);
    const double calls = std::ceil(missing / std::max(each, 1e-9));
    return static_cast<std::uint64_t>(std::min(calls, static_cast<double>(kMostCalls)));
  }

 private:
  static constexpr std::uint64_t kMostCalls = std::uint64_t{1} << 40;

  bool limited_ = false;
  double total_ = 0;
  double more_ = 0;
};

}  // namespace tapa
