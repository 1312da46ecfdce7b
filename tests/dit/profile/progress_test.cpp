#include "profile/progress.hpp"

#include <gtest/gtest.h>

namespace dit {
namespace {

TEST(Progress, Line) {
  EXPECT_EQ(progress_line({0, 50, 0, 0}, 10), "0/50 [>         ]");
  EXPECT_EQ(progress_line({12, 50, 0.41, 4.8}, 10), "12/50 [==>       ] 410 ms/step, 15 s left");
  EXPECT_EQ(progress_line({50, 50, 0.41, 20.5}, 10), "50/50 [==========] 410 ms/step, 21 s in all");
}

TEST(Progress, NothingIsTooOdd) {
  EXPECT_EQ(progress_line({5, 0, 0, 0}, 0), "0/0 [=]");
  EXPECT_EQ(progress_line({9, 3, 1, 3}, 3), "3/3 [===] 1.0 s/step, 3.0 s in all");
  EXPECT_EQ(progress_line({-1, 3, 1, 3}, 3), "0/3 [>  ]");
}

TEST(Progress, Durations) {
  EXPECT_EQ(duration_text(0.0123), "12.3 ms");
  EXPECT_EQ(duration_text(0.9999), "1.0 s");
  EXPECT_EQ(duration_text(9.96), "10 s");
  EXPECT_EQ(duration_text(59.4), "59 s");
  EXPECT_EQ(duration_text(59.6), "1 min 0 s");
  EXPECT_EQ(duration_text(185), "3 min 5 s");
  EXPECT_EQ(duration_text(7445), "2 h 4 min");
  EXPECT_EQ(duration_text(-1), "?");
  EXPECT_EQ(duration_text(1e300), "?");
}

}  // namespace
}  // namespace dit
