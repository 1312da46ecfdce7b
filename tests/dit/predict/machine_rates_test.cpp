#include "predict/machine_rates.hpp"

#include <gtest/gtest.h>

#include "exchange/local/local_ranks.hpp"

namespace dit {
namespace {

TEST(MachineRates, ComputeRatesAreFlopOverTime) {
  ForwardShape shape;
  shape.attention.image_tokens = 64;
  shape.attention.heads = shape.attention.kv_heads = 4;
  shape.attention.head_dim = 8;
  shape.width = 32;
  shape.patch_elements = 3;
  StepGraph graph = transformer_graph({1, 2, 2, false});
  MachineRates rates;
  rates.linear_flops = 5e9;
  rates.attention_flops = 2e9;
  estimate(graph, shape, rates);
  const ComputeRates found = compute_rates(graph, shape);
  EXPECT_NEAR(found.linear, 5e9, 1);
  EXPECT_NEAR(found.attention, 2e9, 1);
}

TEST(MachineRates, LinksAreThoseThatRanksHave) {
  EXPECT_FALSE(measure_links(nullptr).fast);
  LocalGroupOptions group;
  group.ranks = 3;
  group.ranks_per_node = 2;
  run_local_ranks(group, [](ExchangeContext& context) {
    const MeasuredLinks links = measure_links(&context);
    EXPECT_EQ(links.ranks_per_node, 2);
    ASSERT_TRUE(links.fast);
    ASSERT_TRUE(links.slow);
    EXPECT_GT(links.slow->bytes_per_second, 0);
    const std::vector<LevelSeconds> levels = measure_levels(context);
    ASSERT_EQ(levels.size(), 1U);
    EXPECT_EQ(levels[0].level, context.slow_level());
  });
  group.ranks_per_node = 0;
  run_local_ranks(group, [](ExchangeContext& context) {
    EXPECT_TRUE(measure_links(&context).fast);
    EXPECT_FALSE(measure_links(&context).slow);
  });
}

TEST(MachineRates, FullTensorsAreNotCoded) {
  EXPECT_EQ(measure_coding(nullptr, {{parse_wire_mode("full"), 1}}, WireElement::fp32, 0), 0);
  EXPECT_GT(measure_coding(nullptr, {{parse_wire_mode("residual int4"), 1}}, WireElement::fp32, 0.5F), 0);
}

// Every way in which a block may travel can be timed, V-Major's rows too.
TEST(MachineRates, CodingOfAnyModeIsMeasured) {
  for (const char* text : {"bf16", "fp8", "residual int4", "rows 0.5 fp8", "v-major 0.6 fp8",
                           "v-major 0.6 residual int4", "late bf16", "skip"}) {
    const std::vector<ModeShare> modes{{parse_wire_mode(text), 1}};
    EXPECT_GT(measure_coding(nullptr, modes, WireElement::bf16, 0.5F), 0) << text;
  }
  EXPECT_EQ(measure_coding(nullptr, {{WireMode{}, 1}}, WireElement::fp32, 0), 0);
}

}  // namespace
}  // namespace dit
