// When exchanges take too long: since one ended or the first began, with what their bytes take.
#include "device/exchange_clock.hpp"

#include <gtest/gtest.h>

namespace tapa::device {
namespace {

using std::chrono::nanoseconds;

constexpr Word kLimit = 1000;
const ExchangeClock::Time kStart{};

TEST(ExchangeClock, WhatIsUnderWayIsLateBehindTheLimit) {
  ExchangeClock clock(kLimit, kStart);
  EXPECT_FALSE(clock.is_late(0, 0, 0, kStart + nanoseconds(5000)));
  EXPECT_FALSE(clock.is_late(1, 0, 0, kStart + nanoseconds(6000)));
  EXPECT_TRUE(clock.is_late(1, 0, 0, kStart + nanoseconds(6001)));
  EXPECT_FALSE(clock.is_late(1, 1, 0, kStart + nanoseconds(9000)));
}

TEST(ExchangeClock, OneThatEndsBeginsTheTimeOfTheNext) {
  ExchangeClock clock(kLimit, kStart);
  EXPECT_FALSE(clock.is_late(2, 0, 0, kStart + nanoseconds(900)));
  EXPECT_FALSE(clock.is_late(2, 1, 0, kStart + nanoseconds(1500)));
  EXPECT_FALSE(
      clock.is_late(3, 1, 0, kStart + nanoseconds(2500)));  // one more that has begun changes nothing
  EXPECT_TRUE(clock.is_late(3, 1, 0, kStart + nanoseconds(2501)));
}

TEST(ExchangeClock, BytesTakeTimeOnASlowLine) {
  ExchangeClock clock(kLimit, kStart);
  EXPECT_FALSE(clock.is_late(1, 0, 10, kStart + nanoseconds(2000)));
  EXPECT_TRUE(clock.is_late(1, 0, 10, kStart + nanoseconds(2001)));
}

TEST(ExchangeClock, WithoutATimeOutNothingIsLate) {
  ExchangeClock clock(0, kStart);
  EXPECT_FALSE(clock.is_late(1, 0, 0, kStart + std::chrono::hours(1)));
}

}  // namespace
}  // namespace tapa::device
