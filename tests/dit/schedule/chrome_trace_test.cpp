#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "../message_of.hpp"
#include "graphs.hpp"
#include "schedule/execute.hpp"

namespace dit {
namespace {

using Json = nlohmann::json;
using Lane = TraceSpan::Lane;

/// Two exchanges that overlap, the wait for the first, and what packs it.
Trace sample(const StepGraph& graph) {
  const StepId v = test::find(graph, StepRole::scatter_value);
  const StepId q = test::find(graph, StepRole::scatter_query);
  Trace trace;
  trace.spans = {{Lane::compute, test::find(graph, StepRole::value), 2, 0.001, 0.002},
                 {Lane::compute, v, 2, 0.002, 0.003},
                 {Lane::wait, v, 2, 0.005, 0.006},
                 {Lane::exchange, v, 2, 0.003, 0.006},
                 {Lane::exchange, q, 2, 0.004, 0.007}};
  return trace;
}

StepGraph graph_with_bytes() {
  StepGraph graph = transformer_graph({});
  graph.steps[static_cast<std::size_t>(test::find(graph, StepRole::scatter_value))].slow_bytes = 4096;
  return graph;
}

const Json* find_event(const Json& trace, const char* phase, const std::string& name, int rank, int thread) {
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == phase && event["name"] == name && event["pid"] == rank && event["tid"] == thread)
      return &event;
  }
  return nullptr;
}

TEST(ChromeTrace, RanksAreProcessesAndLanesAreThreads) {
  const StepGraph graph = graph_with_bytes();
  const Json trace = Json::parse(chrome_trace({graph}, {sample(graph), sample(graph)}, {0, 0.5}));
  const auto thread_name = [&](int rank, int thread) {
    const Json* event = find_event(trace, "M", "thread_name", rank, thread);
    return event == nullptr ? "none" : (*event)["args"]["name"].get<std::string>();
  };
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ((*find_event(trace, "M", "process_name", rank, 0))["args"]["name"],
              "rank " + std::to_string(rank));
    EXPECT_EQ(thread_name(rank, 0), "compute");
    EXPECT_EQ(thread_name(rank, 1), "wait");
    EXPECT_EQ(thread_name(rank, 2), "exchange");
    EXPECT_EQ(thread_name(rank, 3), "exchange 2");
  }
}

TEST(ChromeTrace, SpansHaveTimesAndWords) {
  const StepGraph graph = graph_with_bytes();
  const Json trace = Json::parse(chrome_trace({graph}, {sample(graph), sample(graph)}, {0, 0.5}));
  const Json* compute = find_event(trace, "X", "layer 0 unit 0 value", 1, 0);
  ASSERT_NE(compute, nullptr);
  EXPECT_NEAR((*compute)["ts"].get<double>(), 501'000, 1e-3);
  EXPECT_NEAR((*compute)["dur"].get<double>(), 1'000, 1e-3);
  EXPECT_EQ((*compute)["cat"], "compute");
  EXPECT_EQ((*compute)["args"], (Json{{"role", "value"}, {"unit", 0}, {"layer", 0}, {"forward", 2}}));
  const Json* exchange = find_event(trace, "X", "layer 0 unit 0 scatter_value group 0", 0, 2);
  ASSERT_NE(exchange, nullptr);
  EXPECT_EQ((*exchange)["args"]["slow_bytes"], 4096);
  EXPECT_EQ((*exchange)["args"]["group"], 0);
  // The second exchange overlaps the first one.
  EXPECT_NE(find_event(trace, "X", "layer 0 unit 0 scatter_query group 0", 0, 3), nullptr);
  EXPECT_NE(find_event(trace, "X", "copies of layer 0 unit 0 scatter_value group 0", 0, 0), nullptr);
}

std::string refusal(const std::vector<StepGraph>& graphs, const std::vector<Trace>& ranks,
                    const std::vector<double>& offsets) {
  return misuse_of([&] { (void)chrome_trace(graphs, ranks, offsets); });
}

TEST(ChromeTrace, RefusesWhatDoesNotFit) {
  const StepGraph graph = transformer_graph({});
  Trace strange;
  strange.spans = {{Lane::compute, 99, 0, 0, 1}};
  EXPECT_EQ(refusal({graph, graph}, {{}, {}, {}}, {}),
            "graphs of a trace: 2 for 3 ranks, expected one, or one for each rank");
  EXPECT_EQ(refusal({graph}, {{}, {}}, {0}),
            "offsets of a trace: 1 for 2 ranks, expected none, or one for each rank");
  EXPECT_EQ(refusal({graph}, {{}, strange}, {}),
            "trace of rank 1 has a span of step 99: its graph has 12 steps");
  EXPECT_EQ(refusal({graph, graph}, {{}, {}}, {}), nothing_thrown);
}

}  // namespace
}  // namespace dit
