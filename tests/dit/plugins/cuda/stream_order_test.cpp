// The order of exchanges over streams, those that run and those that are captured.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/stream_events.hpp"
#include "exchange/plugin_guard.hpp"
#include "fake_runtime.hpp"

namespace dit {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

class StreamOrderTest : public testing::Test {
 protected:
  void SetUp() override { fake::runtime() = {}; }
  void exchange(cudaStream_t stream) {
    order_.enter(stream);
    ends_.push_back(order_.leave(stream));
  }
  void capture(cudaStream_t stream, unsigned long long number) { fake::runtime().captures[stream] = number; }

  const cudaStream_t a_ = fake::stream(1), b_ = fake::stream(2), c_ = fake::stream(3), d_ = fake::stream(4);
  const std::vector<std::pair<cudaStream_t, cudaStream_t>>& waits_ = fake::runtime().waits;

 private:
  StreamOrder order_{0};
  std::vector<std::unique_ptr<StreamEnd>> ends_;
};

TEST_F(StreamOrderTest, AnotherStreamWaits) {
  exchange(a_);
  exchange(a_);
  exchange(b_);
  EXPECT_THAT(waits_, ElementsAre(Pair(b_, a_)));
}

TEST_F(StreamOrderTest, ACaptureLeavesTheOrderOfWhatRuns) {
  exchange(a_);
  capture(c_, 7);
  exchange(c_);
  exchange(b_);
  EXPECT_THAT(waits_, ElementsAre(Pair(b_, a_)));
}

TEST_F(StreamOrderTest, WhatRunsLeavesTheOrderOfACapture) {
  capture(c_, 7);
  capture(d_, 7);
  exchange(c_);
  exchange(a_);
  exchange(d_);
  EXPECT_THAT(waits_, ElementsAre(Pair(d_, c_)));
}

TEST_F(StreamOrderTest, CapturesHaveNoOrderWithEachOther) {
  capture(c_, 7);
  capture(d_, 8);
  exchange(c_);
  exchange(d_);
  EXPECT_THAT(waits_, IsEmpty());
}

TEST_F(StreamOrderTest, AnEndWithALimitIsNotWaitedForForEver) {
  StreamOrder order(0);
  order.enter(a_);
  const auto end = with_limit(order.leave(a_), 0.01);
  EXPECT_NO_THROW(end->wait());
  fake::runtime().passes = false;
  try {
    end->wait();
    FAIL() << "a wait that ends";
  } catch (const PluginFailure& failure) {
    EXPECT_EQ(failure.status(), DIT_ERROR_TIMEOUT);
    EXPECT_THAT(failure.what(), testing::HasSubstr("has not ended within 0.01"));
  }
}

}  // namespace
}  // namespace dit
