/// @file
/// A competition of plans for one size of blocks: the first calls try each in turn, then the fastest is kept.
/// Pure: no MPI; the caller sees to it that all ranks decide by the same times.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "plan/choice.hpp"

namespace tapa {

class Trial {
 public:
  /// Timed calls of each plan; one more comes first and does not count, as it makes plans and connections.
  static constexpr std::size_t kRounds = 5;
  /// A plan must be this much faster than the first one to be preferred to it.
  static constexpr double kGain = 0.03;

  /// Precondition: at least one choice; the first is what would be taken without a trial.
  explicit Trial(std::vector<Choice> choices);

  [[nodiscard]] const std::vector<Choice>& choices() const { return choices_; }

  /// Whether all calls were made.
  [[nodiscard]] bool complete() const { return calls_ == choices_.size() * (kRounds + 1); }
  /// The plan of the next call. Precondition: not complete().
  [[nodiscard]] const Choice& next() const { return choices_[calls_ % choices_.size()]; }
  /// That call has taken so long on this rank.
  void record(double seconds);

  /// This rank's times; to be replaced by those of the slowest rank before decide().
  [[nodiscard]] std::span<double> seconds() { return seconds_; }
  /// Index of the choice with the least median, or 0 when none is kGain better. Precondition: complete().
  [[nodiscard]] std::size_t decide() const;
  /// Median of a choice's times.
  [[nodiscard]] double median(std::size_t choice) const;

 private:
  std::vector<Choice> choices_;
  std::vector<double> seconds_;  // kRounds of each choice
  std::size_t calls_ = 0;
};

}  // namespace tapa
