#include "training_clock.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace dit::gray_scott {
namespace {

TEST(LearningRate, RisesThenFollowsACosine) {
  EXPECT_DOUBLE_EQ(learning_rate(1.0, 0.0, 0, 3), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(1.0, 0.0, 3, 3), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(2.0, 0.5, 100, 3), 1.0);
  EXPECT_NEAR(learning_rate(1.0, 1.0, 100, 0), 0.0, 1e-12);
}

TEST(TrainingClock, CountsSteps) {
  const TrainingClock clock(4, std::nullopt, 0.0, 1.0);
  EXPECT_FALSE(clock.finished(3));
  EXPECT_TRUE(clock.finished(4));
  EXPECT_DOUBLE_EQ(clock.progress(1), 0.25);
}

TEST(TrainingClock, GoesThroughItsPartOfTheSchedule) {
  const TrainingClock clock(4, std::nullopt, 0.5, 0.9);
  EXPECT_DOUBLE_EQ(clock.progress(0), 0.5);
  EXPECT_DOUBLE_EQ(clock.progress(2), 0.7);
  EXPECT_DOUBLE_EQ(clock.progress(9), 0.9);
}

TEST(TrainingClock, EndsWithItsTimeWhateverTheSteps) {
  const TrainingClock clock(std::nullopt, std::chrono::duration<double>(0.02), 0.0, 1.0);
  const TrainingClock both(1000, std::chrono::duration<double>(0.02), 0.0, 1.0);
  std::this_thread::sleep_for(std::chrono::milliseconds(25));
  EXPECT_TRUE(clock.finished(0));
  EXPECT_TRUE(both.finished(1));
  EXPECT_TRUE(TrainingClock(std::nullopt, std::chrono::duration<double>(-1), 0.0, 1.0).finished(0));
}

}  // namespace
}  // namespace dit::gray_scott
