#include "schedule/execute.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <thread>

#include "../message_of.hpp"
#include "fake_plugin.hpp"
#include "graphs.hpp"

namespace dit {
namespace {

using namespace std::chrono_literals;
using Lane = TraceSpan::Lane;
using test::FakeWorld;

/// Sleeps where it should compute, and writes into the world's log what it is asked to do.
class SleepingWork : public StepWork {
 public:
  SleepingWork(const StepGraph& graph, FakeWorld& world)
      : graph_(graph), world_(world), context_(test::open_fake(world)) {}

  void compute(StepId step) override {
    if (role(step) == fails_in) throw std::runtime_error("out of memory");
    world_.log.push_back("compute " + name(step));
    std::this_thread::sleep_for(duration);
  }
  void pack(StepId step) override { world_.log.push_back("pack " + name(step)); }
  ExchangeRequest start(StepId step, bool blocking) override {
    const std::string label = name(step);
    dit_exchange_call call{};
    call.label = label.c_str();
    call.flags = blocking ? DIT_EXCHANGE_BLOCKING : 0;
    return context_.start(call);
  }
  void arrived(StepId step) override { world_.log.push_back("arrived " + name(step)); }

  std::chrono::milliseconds duration{0};
  std::optional<StepRole> fails_in;

 private:
  [[nodiscard]] StepRole role(StepId step) const { return graph_.steps[static_cast<std::size_t>(step)].role; }
  [[nodiscard]] std::string name(StepId step) const { return to_string(role(step)); }

  const StepGraph& graph_;
  FakeWorld& world_;
  ExchangeContext context_;
};

TEST(Execute, FollowsTheOrder) {
  const StepGraph graph = transformer_graph({});
  FakeWorld world;
  SleepingWork work(graph, world);
  const ExecutionTimes times = execute(graph, v_first_order(graph), work);
  EXPECT_EQ(
      world.log,
      (std::vector<std::string>{
          "compute prepare",       "compute value",         "pack scatter_value",  "start scatter_value",
          "compute query",         "pack scatter_query",    "start scatter_query", "compute key",
          "pack scatter_key",      "start scatter_key",     "wait scatter_value",  "arrived scatter_value",
          "wait scatter_query",    "arrived scatter_query", "wait scatter_key",    "arrived scatter_key",
          "compute attention",     "pack gather_output",    "start gather_output", "wait gather_output",
          "arrived gather_output", "compute finish",        "compute mlp",         "compute last"}));
  EXPECT_EQ(times.exchanges, 4u);
}

TEST(Execute, BlockingExchangesAreAskedForAsSuch) {
  const StepGraph graph = transformer_graph({});
  FakeWorld world;
  SleepingWork work(graph, world);
  EXPECT_EQ(execute(graph, flat_order(graph), work).exchanges, 4u);
  const auto at = std::find(world.log.begin(), world.log.end(), "blocking scatter_value");
  ASSERT_GE(world.log.end() - at, 3);
  EXPECT_EQ(*(at - 1), "pack scatter_value");
  EXPECT_EQ(*(at + 1), "wait scatter_value");
  EXPECT_EQ(*(at + 2), "arrived scatter_value");
  EXPECT_EQ(std::count_if(world.log.begin(), world.log.end(),
                          [](const auto& line) { return line.starts_with("start"); }),
            0);
}

double seconds_in(const Trace& trace, Lane lane) {
  double sum = 0;
  for (const TraceSpan& span : trace.spans) {
    EXPECT_LE(span.begin, span.end);
    if (span.lane == lane) sum += span.end - span.begin;
  }
  return sum;
}

TEST(Execute, BlockingExchangesAreExposed) {
  const StepGraph graph = transformer_graph({});
  FakeWorld world;
  world.duration = 10ms;
  SleepingWork work(graph, world);
  work.duration = 2ms;
  Trace trace;
  const ExecutionTimes times = execute(graph, flat_order(graph), work, &trace, 3);
  EXPECT_GE(times.exposed_seconds, 0.040);
  EXPECT_GE(times.compute_seconds, 0.016);
  EXPECT_GE(times.seconds, times.exposed_seconds + times.compute_seconds);
  EXPECT_DOUBLE_EQ(seconds_in(trace, Lane::wait), times.exposed_seconds);
  EXPECT_NEAR(seconds_in(trace, Lane::compute), times.compute_seconds, 1e-9);
  EXPECT_GE(times.step_seconds[static_cast<std::size_t>(test::find(graph, StepRole::scatter_key))], 0.010);
  EXPECT_GE(times.step_seconds[static_cast<std::size_t>(test::find(graph, StepRole::mlp))], 0.002);
  for (const TraceSpan& span : trace.spans) EXPECT_EQ(span.forward, 3);
}

TEST(Execute, ExchangesUnderComputingAreHidden) {
  const StepGraph graph = transformer_graph({});
  FakeWorld world;
  world.duration = 200ms;
  SleepingWork work(graph, world);
  work.duration = 250ms;
  Trace trace;
  // V and Q travel under Q and K; of K's exchange and the output's all is exposed.
  const ExecutionTimes times = execute(graph, v_first_order(graph), work, &trace);
  EXPECT_GE(times.exposed_seconds, 0.400);
  EXPECT_LT(times.exposed_seconds, 0.775);  // flat: 0.800
  EXPECT_GE(seconds_in(trace, Lane::exchange), 0.800);
}

TEST(Execute, WhatIsUnderWayIsWaitedForAfterAnException) {
  const StepGraph graph = transformer_graph({});
  FakeWorld world;
  SleepingWork work(graph, world);
  work.fails_in = StepRole::key;
  EXPECT_EQ(message_of<std::runtime_error>([&] { (void)execute(graph, v_first_order(graph), work); }),
            "out of memory");
  // In the order of the starts, after the step that failed.
  ASSERT_GE(world.log.size(), 2u);
  EXPECT_EQ(world.log[world.log.size() - 2], "wait scatter_value");
  EXPECT_EQ(world.log.back(), "wait scatter_query");
}

TEST(Execute, AFailedExchangeIsTold) {
  const StepGraph graph = transformer_graph({});
  FakeWorld world;
  world.fails_at = "scatter_query";
  SleepingWork work(graph, world);
  try {
    (void)execute(graph, v_first_order(graph), work);
    FAIL() << "nothing thrown";
  } catch (const ExchangeError& error) {
    EXPECT_EQ(error.status(), DIT_ERROR_COMMUNICATION);
    EXPECT_STREQ(error.what(), "exchange plugin fake: the link is down");
  }
  EXPECT_EQ(world.log.back(), "wait scatter_key");
}

TEST(Execute, RefusesAnOrderThatIsNotSound) {
  const StepGraph graph = transformer_graph({});
  FakeWorld world;
  SleepingWork work(graph, world);
  Order order = v_first_order(graph);
  order.pop_back();
  EXPECT_EQ(misuse_of([&] { (void)execute(graph, order, work); }),
            "order of steps: step 11 (unit 0 last) is never done");
  EXPECT_TRUE(world.log.empty());
}

}  // namespace
}  // namespace dit
