/// @file
/// When a rank that polls gives its core away. Pure.
#pragma once

#include <algorithm>
#include <chrono>

namespace tapa {

/// What a thread knows of the core it waits on. Somebody else may want it: a rank of the job, which gives it
/// back as soon as it waits itself, or a program that has nothing to do with the job and keeps it for a whole
/// time slice. To the latter a rank that gives the core away at each wait would lose nearly all of its time,
/// where one that keeps polling gets its half. So what was lost at once is polled before the next try.
class YieldPolicy {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  static constexpr int kMostPolls = 60;
  static constexpr int kLeastPolls = 4;
  /// Giving the core away takes 0.2 us when nobody wants it, and over 1 us when somebody does.
  static constexpr Nanoseconds kAlone{700};
  /// A rank of the job that waits too gives it back before.
  static constexpr Nanoseconds kSlice{50'000};
  /// A poll takes at least that.
  static constexpr Nanoseconds kPoll{50};
  /// Nothing that was lost tells anything of what comes so much later.
  static constexpr Nanoseconds kMostOwed{20'000'000};

  /// After `idle` polls of a wait without success: whether the core is to be given away. Else it is polled
  /// once more.
  [[nodiscard]] bool gives_away(int idle) {
    if (idle < polls_) return false;
    if (owed_ == 0) return true;
    --owed_;
    return false;
  }

  /// It was given away and came back after so long.
  void came_back(Nanoseconds after) {
    polls_ = after > kAlone ? std::max(polls_ / 2, kLeastPolls) : std::min(polls_ + 4, kMostPolls);
    if (after > kSlice) owed_ = std::min(after, kMostOwed) / kPoll;
  }

 private:
  int polls_ = kMostPolls;
  Nanoseconds::rep owed_ = 0;  // polls
};

}  // namespace tapa
