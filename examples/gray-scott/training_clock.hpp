/// How far a training run is, from 0 to 1, by steps or by time; the learning rate follows it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace dit::gray_scott {

/// A run may be one part of a schedule: it goes from `begin` to `end`.
class TrainingClock {
 public:
  using Clock = std::chrono::steady_clock;
  /// Either `steps` or `limit` is given. With a limit progress is the time that has passed since the
  /// construction, so that the schedule ends when the time does, whatever the speed.
  TrainingClock(std::optional<std::int64_t> steps, std::optional<std::chrono::duration<double>> limit,
                double begin, double end);
  [[nodiscard]] bool finished(std::int64_t step) const { return part(step) >= 1.0; }
  /// Of the whole schedule.
  [[nodiscard]] double progress(std::int64_t step) const { return begin_ + (end_ - begin_) * part(step); }
  [[nodiscard]] double seconds() const;

 private:
  [[nodiscard]] double part(std::int64_t step) const;

  std::optional<std::int64_t> steps_;
  std::optional<std::chrono::duration<double>> limit_;
  double begin_;
  double end_;
  Clock::time_point start_ = Clock::now();
};

/// Cosine from `peak` to 0 over progress 0 to 1, after a linear rise over `warmup_steps` steps of this run.
[[nodiscard]] double learning_rate(double peak, double progress, std::int64_t step,
                                   std::int64_t warmup_steps);

}  // namespace dit::gray_scott
