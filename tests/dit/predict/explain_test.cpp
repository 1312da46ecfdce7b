#include "predict/explain.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "../message_of.hpp"
#include "../schedule/graphs.hpp"

namespace dit {
namespace {

/// A layer: 10 ms of computing, 8 ms of exchanges.
StepGraph graph_of(int units, int layers) {
  return test::with_layer_times(transformer_graph({units, layers, 1, false}), 0.010, 0.008);
}

TEST(Explain, DrawsFlat) {
  const StepGraph graph = graph_of(1, 2);
  ExplainOptions options;
  options.layers = 1;
  options.columns = 18;
  EXPECT_EQ(
      explain(graph, flat_order(graph), options),
      "first 1 of 2 layers: 18 ms of 36 ms, a column is 1 ms\n"
      "compute   VQK------AA--FMMMM\n"
      "exchange     vvqqkk  oo\n"
      "P prepare, V value, Q query, K key, v scatter_value, q scatter_query, k scatter_key, A attention, "
      "o gather_output, F finish, M mlp, L last, - waiting\n"
      "predicted: 36 ms, of which 20 ms computing and 16 ms waiting; exchanges take 16 ms, 0 % of it "
      "hidden\n");
}

TEST(Explain, DrawsVFirst) {
  const StepGraph graph = graph_of(1, 1);
  ExplainOptions options;
  options.columns = 16;
  const std::string text = explain(graph, v_first_order(graph), options);
  EXPECT_NE(text.find("first 1 of 1 layers: 16 ms of 16 ms, a column is 1 ms\n"
                      "compute   VQK----AA--FMMMM\n"
                      "exchange   vvqqkk  oo\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("25 % of it hidden"), std::string::npos) << text;
}

TEST(Explain, DrawsUnitsBelowEachOther) {
  const StepGraph graph = graph_of(2, 1);
  ExplainOptions options;
  options.columns = 32;
  const std::string text = explain(graph, v_first_order(graph), options);
  EXPECT_NE(text.find("unit 0 compute   VQK----AA--FMMMM\n"
                      "unit 0 exchange   vvqqkk  oo\n"
                      "unit 1 compute                   VQK----AA--FMMMM\n"
                      "unit 1 exchange                   vvqqkk  oo\n"),
            std::string::npos)
      << text;
}

TEST(Explain, WithoutEstimates) {
  const StepGraph graph = transformer_graph({});
  ExplainOptions options;
  options.columns = 12;
  EXPECT_EQ(
      explain(graph, flat_order(graph), options),
      "first 1 of 1 layers, without estimates: all steps drawn equally long\n"
      "compute   PVQK---A-FML\n"
      "exchange      vqk o\n"
      "P prepare, V value, Q query, K key, v scatter_value, q scatter_query, k scatter_key, A attention, "
      "o gather_output, F finish, M mlp, L last, - waiting\n");
}

TEST(Explain, ShortExchangesAreSeen) {
  StepGraph graph = graph_of(1, 1);
  graph.steps[static_cast<std::size_t>(test::find(graph, StepRole::gather_output))].seconds = 0.0002;
  ExplainOptions options;
  options.columns = 14;  // of 1.01 ms
  const std::string text = explain(graph, v_first_order(graph), options);
  EXPECT_NE(text.find("exchange   vvqqkk o\n"), std::string::npos) << text;
}

TEST(Explain, SlowerExchanges) {
  const StepGraph graph = graph_of(1, 1);
  ExplainOptions options;
  options.predict.exchange_scale = 2;
  EXPECT_NE(explain(graph, flat_order(graph), options).find("predicted: 26 ms"), std::string::npos);
}

TEST(Explain, RefusesWhatCannotBeDrawn) {
  const StepGraph graph = graph_of(1, 1);
  const auto refusal = [&](int layers, int columns) {
    return misuse_of([&] { (void)explain(graph, flat_order(graph), {layers, columns, {}}); });
  };
  EXPECT_EQ(refusal(0, 80), "layers to explain: 0, expected at least 1");
  EXPECT_EQ(refusal(1, 5), "columns to explain in: 5, expected at least 10");
  EXPECT_EQ(refusal(5, 10), nothing_thrown);
}

}  // namespace
}  // namespace dit
