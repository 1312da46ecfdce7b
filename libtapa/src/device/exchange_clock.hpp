/// @file
/// When exchanges that a thread of the host watches take too long. Pure.
#pragma once

#include <chrono>

#include "device/words.hpp"

namespace tapa::device {

class ExchangeClock {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `timeout`: nanoseconds; 0: none.
  ExchangeClock(Word timeout, Time now) : timeout_(timeout), since_(now) {}

  /// Whether those under way have taken longer than the time-out since one of them ended, or the first began.
  /// `begun`, `ended`: so many. `bytes`: of the longest; an exchange is watched as a whole, and on a slow
  /// line takes as long as its bytes do.
  [[nodiscard]] bool is_late(Word begun, Word ended, Word bytes, Time now) {
    constexpr Word kSlowestLine = 100;  // nanoseconds a byte: 10 MB/s
    if (begun == ended || ended != ended_) since_ = now;
    ended_ = ended;
    return timeout_ != 0 && now - since_ > std::chrono::nanoseconds(timeout_ + bytes * kSlowestLine);
  }

 private:
  Word timeout_;
  Word ended_ = 0;
  Time since_;
};

}  // namespace tapa::device
