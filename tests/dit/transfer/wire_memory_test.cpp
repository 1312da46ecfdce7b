// What a wire policy keeps from step to step, as it is stated before anything is allocated.
#include <gtest/gtest.h>

#include "exchange/exchange.hpp"
#include "exchange/local/local_ranks.hpp"
#include "transfer/wire_run.hpp"

namespace dit {
namespace {

constexpr int kLayers = 3, kSteps = 4;
const AttentionShape kShape{1, 0, 8, 2, 2, 8};  // two ranks send each other 4 rows of a head of 8 numbers
constexpr std::uint64_t kNumbers = 4 * 8;

WirePolicy policy_of(const char* mode, int first_step, AttentionTensor tensor) {
  WireRule rule;
  rule.mode = parse_wire_mode(mode);
  rule.steps.first = first_step;
  rule.tensors = {tensor};
  WirePolicy policy;
  policy.rules.push_back(rule);
  return policy;
}

std::uint64_t late_bytes(const WirePolicy& policy, int units, int groups = 1) {
  std::uint64_t bytes = 0;
  LocalGroupOptions ranks;
  ranks.ranks = 2;
  ranks.ranks_per_node = 1;
  run_local_ranks(ranks, [&](ExchangeContext& context) {
    const UlyssesLayout layout(kShape, context.size());
    const WireRun run(policy, kLayers, kSteps, context, context, layout, groups, WireElement::fp32);
    if (context.rank() == 1) bytes = run.late_bytes(units);
  });
  return bytes;
}

TEST(WireMemory, LateBlocksAreKeptBothWaysForEachLayerAndBranch) {
  const WirePolicy policy = policy_of("late bf16", 1, AttentionTensor::value);
  EXPECT_EQ(late_bytes(policy, 1), kLayers * 2 * kNumbers * 2);
  EXPECT_EQ(late_bytes(policy, 2), 2 * kLayers * 2 * kNumbers * 2);
}

TEST(WireMemory, OfAStepWhoseBlocksAreLongest) {
  WirePolicy policy = policy_of("late bf16", 1, AttentionTensor::output);
  const WireRule shorter = policy_of("late fp8", 2, AttentionTensor::output).rules.front();
  policy.rules.push_back(shorter);
  EXPECT_EQ(late_bytes(policy, 1), kLayers * 2 * kNumbers * 2);
}

TEST(WireMemory, NothingIsLateWithoutSuchAMode) {
  EXPECT_EQ(late_bytes(policy_of("residual int4", 0, AttentionTensor::value), 2), 0U);
  EXPECT_EQ(late_bytes({}, 1), 0U);
}

}  // namespace
}  // namespace dit
