/// @file
/// When a communicator of a program that knows nothing of the library is set up. Pure: no MPI.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

namespace tapa {

/// Watches the blocking all-to-alls that MPI carries out on a communicator that is not set up. Now and then
/// rank 0 tells the others whether the set-up pays, so that all do the same. That costs a message, so it
/// happens in calls that all ranks can tell by themselves: when what they have seen should have taken long
/// enough.
class Newcomer {
 public:
  /// A communicator is set up when its all-to-alls have taken so many times as long as the set-up will take:
  /// whatever comes after it, the program has lost no more than 1.7 % to it.
  static constexpr double kPatience = 60;

  /// So many times as long where none has ever paid: what is lost to it is a tenth of a per cent.
  static constexpr double kDoubt = 16;

  /// Calls must have taken so many times as long for a set-up that an account pays for: no run loses more.
  static constexpr double kOwn = 4;

  /// A set-up takes at least so many times as long as the shortest call, as it talks as often.
  static constexpr double kTalks = 16;
  /// But that call may have been a long one. Seconds.
  static constexpr double kMostTalking = 8e-3;

  /// Nanoseconds of calls, estimated, before the ranks talk; then half as many more, and so on.
  static constexpr std::uint64_t kFirstTalk = 5'000'000;

  /// `at_once`: an option asks for the library from the first call on, so the ranks talk then.
  explicit Newcomer(bool at_once = false) : next_(at_once ? 0 : kFirstTalk) {}

  /// Nanoseconds that a call should take at least, from what all ranks know of it: the bytes of each block
  /// where all are equal. Of other calls nothing is known but that they take longer the more ranks there are:
  /// the ranks talk after 64, or of a few ranks, whose calls may take less than a microsecond, 128.
  [[nodiscard]] static std::uint64_t estimate(std::optional<std::size_t> bytes, int ranks) {
    if (!bytes) return kFirstTalk * static_cast<std::uint64_t>(std::clamp(ranks, 4, 8)) / (8 * 64);
    return 5'000 + *bytes * static_cast<std::uint64_t>(ranks) / 10;  // 10 GB/s
  }

  /// Whether the ranks talk in the next call.
  [[nodiscard]] bool asks() const { return estimated_ >= next_; }

  /// Seconds of all-to-alls that pay for a set-up, which takes `setup_seconds`. `hopeless`: it has never paid
  /// in earlier runs.
  [[nodiscard]] double price(double setup_seconds, bool hopeless = false) const {
    return (hopeless ? kDoubt : 1) * kPatience *
           std::max(setup_seconds, std::min(kTalks * shortest_, kMostTalking));
  }
  /// Rank 0's answer. `account`: seconds that earlier runs have left, see learnt_account.hpp.
  [[nodiscard]] bool worth(double setup_seconds, bool hopeless = false, double account = 0) const {
    const double more = spent_ >= kOwn * setup_seconds ? account : 0;
    return spent_ + more > price(setup_seconds, hopeless);
  }

  /// The ranks have agreed to wait.
  void wait_on() {
    if (next_ == 0) next_ = kFirstTalk;
    while (next_ <= estimated_) next_ += next_ / 2;
  }

  /// MPI carries a call out; counted before, as a program's error handler may jump out of it.
  void count(std::uint64_t nanoseconds) { estimated_ += nanoseconds; }
  /// How many calls the time of the next one stands for; 0: it is not measured. Of short calls the clock
  /// would take a share that can be felt: an eighth of them is measured, and of many every 32nd.
  [[nodiscard]] unsigned weight() {
    constexpr unsigned often = 8, seldom = 32, many = 256;
    if (++calls_ <= 2 * often) return 1;
    const unsigned every = calls_ <= many ? often : seldom;
    return calls_ % every == 0 ? every : 0;
  }
  /// What it took, which stands for `weight` calls: where something disturbed it, not for all that it took.
  void spend(double seconds, unsigned weight = 1) {
    constexpr double much = 8, share = 0.25;
    const double usual = typical_ > 0 ? std::min(seconds, much * typical_) : seconds;
    typical_ += typical_ > 0 ? share * (usual - typical_) : usual;
    spent_ += seconds + (weight - 1) * usual;
    shortest_ = std::min(shortest_, seconds);
  }
  /// Seconds, as far as this rank knows.
  [[nodiscard]] double spent() const { return spent_; }

 private:
  std::uint64_t estimated_ = 0;
  std::uint64_t next_;
  double spent_ = 0;
  double typical_ = 0;  // of the last calls
  double shortest_ = std::numeric_limits<double>::max();
  std::uint64_t calls_ = 0;
};

}  // namespace tapa
