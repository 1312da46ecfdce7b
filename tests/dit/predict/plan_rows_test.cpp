#include "predict/plan_rows.hpp"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

#include "../message_of.hpp"
#include "predict/choose_order.hpp"

namespace dit {
namespace {

/// 100 tokens, 8 heads; two ranks a node, whose NIC is slow.
PlanQuestion question() {
  PlanQuestion question;
  question.layers = 2;
  question.ranks_per_node = 2;
  question.rates.linear_flops = 1e6;
  question.rates.attention_flops = 1e5;
  question.rates.fast = {1e5, 1e-3};
  question.rates.slow = {1e4, 1e-2};
  question.mix = {0.5, {1, 1}, {0.5, 1}};
  question.run = [](int ranks, Schedule schedule) {
    if (ranks > 8) throw std::invalid_argument("ranks = " + std::to_string(ranks) + ": expected at most 8");
    PlannedRun run;
    run.shape.attention.image_tokens = 100;
    run.shape.attention.heads = run.shape.attention.kv_heads = 8;
    run.shape.attention.head_dim = 4;
    run.shape.width = 32;
    run.shape.ranks = ranks;
    run.units = schedule == Schedule::pipelined ? 2 : 1;
    run.cache_bytes = 1000;
    return run;
  };
  return question;
}

TEST(PlanRows, OneForEachScheduleAndWhereNodesAreSeveralForThePolicy) {
  const std::vector<PlanRow> rows = PlanRows(question()).rows({1, 2, 4});
  ASSERT_EQ(rows.size(), 1U + 3U + 6U);
  EXPECT_EQ(rows[0].schedule, Schedule::flat);
  EXPECT_EQ(rows[0].step.exposed_seconds, 0);
  for (const PlanRow& row : rows) {
    EXPECT_EQ(row.nodes, (row.ranks + 1) / 2);
    EXPECT_EQ(row.node_bytes > 0, row.nodes > 1);
    EXPECT_EQ(row.cache_bytes, row.exact ? 0U : 1000U);
    EXPECT_TRUE(row.exact || row.nodes > 1);
  }
}

TEST(PlanRows, HalfTheStepsWithHalfTheRows) {
  const std::vector<PlanRow> rows = PlanRows(question()).rows({4});
  const PlanRow& exact = rows[0];
  const PlanRow& policy = rows[3];
  ASSERT_EQ(exact.schedule, policy.schedule);
  // Of Q, K, V and the output, equally many bytes: half of the first three in half of the steps.
  EXPECT_DOUBLE_EQ(policy.node_bytes, exact.node_bytes * (1 - 0.5 * 0.5 * 0.75));
  EXPECT_LT(policy.step.seconds, exact.step.seconds);
}

TEST(PlanRows, FastestOfAll) {
  const std::vector<PlanRow> rows = PlanRows(question()).rows({1, 2, 4});
  const PlanRow* best = fastest(rows, true, 0);
  ASSERT_NE(best, nullptr);
  for (const PlanRow& row : rows) EXPECT_TRUE(!row.exact || row.step.seconds >= best->step.seconds);
  EXPECT_EQ(fastest(rows, true, 2)->ranks, 2);
  EXPECT_EQ(fastest(rows, false, 2), nullptr);
}

TEST(PlanRows, DrawsTimeLines) {
  const std::string text = PlanRows(question()).explained(4, Schedule::pipelined);
  EXPECT_NE(text.find("unit 1 exchange"), std::string::npos) << text;
}

TEST(PlanRows, RefusesWhatTheRunRefuses) {
  EXPECT_EQ(misuse_of([] { (void)PlanRows(question()).rows({9}); }), "ranks = 9: expected at most 8");
}

}  // namespace
}  // namespace dit
