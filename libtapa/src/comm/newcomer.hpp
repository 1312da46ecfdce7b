/// @file
/// When a communicator of a program that knows nothing of the library is set up. Pure: no MPI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace tapa {

/// Watches the blocking all-to-alls that MPI carries out on a communicator that is not set up. Now and then
/// rank 0 tells the others whether the set-up pays, so that all do the same. That costs a message, so it
/// happens in calls that all ranks can tell by themselves: when what they have seen should have taken long
/// enough.
class Newcomer {
 public:
  /// A communicator is set up when its all-to-alls have taken so many times as long as the set-up will take:
  /// a communicator that is made, used a few times and freed costs what it costs in MPI.
  static constexpr double kPatience = 20;

  /// Nanoseconds of calls, estimated, before the ranks talk; then four times as many, and so on.
  static constexpr std::uint64_t kFirstTalk = 5'000'000;

  /// `at_once`: an option asks for the library from the first call on, so the ranks talk then.
  explicit Newcomer(bool at_once = false) : next_(at_once ? 0 : kFirstTalk) {}

  /// Nanoseconds that a call should take at least, from what all ranks know of it: the bytes of each block
  /// where all are equal. Of other calls nothing is known but that there are few.
  [[nodiscard]] static std::uint64_t estimate(std::optional<std::size_t> bytes, int ranks) {
    if (!bytes) return kFirstTalk / 8;
    return 5'000 + *bytes * static_cast<std::uint64_t>(ranks) / 10;  // 10 GB/s
  }

  /// Whether the ranks talk in the next call.
  [[nodiscard]] bool asks() const { return estimated_ >= next_; }

  /// Rank 0's answer; `setup_seconds`: what a set-up takes.
  [[nodiscard]] bool worth(double setup_seconds) const { return spent_ > kPatience * setup_seconds; }

  /// The ranks have agreed to wait.
  void wait_on() {
    if (next_ == 0) next_ = kFirstTalk;
    while (next_ <= estimated_) next_ *= 4;
  }

  /// MPI carries a call out; counted before, as a program's error handler may jump out of it.
  void count(std::uint64_t nanoseconds) { estimated_ += nanoseconds; }
  /// What it took.
  void spend(double seconds) { spent_ += seconds; }

 private:
  std::uint64_t estimated_ = 0;
  std::uint64_t next_;
  double spent_ = 0;
};

}  // namespace tapa
