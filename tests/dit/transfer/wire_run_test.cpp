// Steps that code alike, by brute force: which graphs of a policy may be replayed where.
#include "transfer/wire_run.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "../message_of.hpp"
#include "exchange/exchange.hpp"
#include "exchange/local/local_ranks.hpp"
#include "wire/wire_words.hpp"

namespace dit {
namespace {

constexpr int kLayers = 3;
constexpr AttentionTensor kTensors[] = {AttentionTensor::query, AttentionTensor::key, AttentionTensor::value,
                                        AttentionTensor::output};
const AttentionShape kShape{2, 3, 29, 6, 3, 8};

std::string with_rules(const std::string& rules, const std::string& more = "") {
  return R"({"format": "dit-wire-policy", "version": 1, )" + more + R"("rules": [)" + rules + "]}";
}

void on_far_ranks(const std::string& policy, int steps, const std::function<void(const WireRun&)>& body) {
  LocalGroupOptions group;
  group.ranks = 2;
  group.ranks_per_node = 1;
  run_local_ranks(group, [&](ExchangeContext& context) {
    const UlyssesLayout layout(kShape, context.size());
    body(WireRun(wire_policy_from(policy, steps), kLayers, steps, context, context, layout, 1,
                 WireElement::fp32));
  });
}

bool are_alike(const WireRun& run, int step, int other, int branch) {
  for (const AttentionTensor tensor : kTensors)
    for (int layer = 0; layer < kLayers; ++layer)
      if (run.resolve(tensor, {layer, step, branch}).by_level !=
          run.resolve(tensor, {layer, other, branch}).by_level)
        return false;
  return true;
}

TEST(WireRun, NamesTheFirstStepThatCodesAlike) {
  const std::string rules = with_rules(
      R"({"mode": "residual int8"}, {"mode": "residual int2", "steps": [4, -1], "layers": [1, 1]},)"
      R"({"mode": "fp8", "branch": 1, "tensors": ["k"]}, {"mode": "skip", "steps": [6, -1], "every": 3},)"
      R"({"mode": "int8", "tokens": "text", "steps": [2, 9]})");
  for (const std::string& policy :
       {std::string("exact"), std::string("fp8"), std::string("fine"), std::string("good"),
        std::string("balanced"), std::string("fast"), std::string("draft"), rules}) {
    for (const int steps : {1, 2, 7, 28, 50}) {
      on_far_ranks(policy, steps, [&](const WireRun& run) {
        for (int branch = 0; branch < 2; ++branch) {
          for (int step = 0; step < steps; ++step) {
            const int first = run.first_alike(step, branch);
            ASSERT_GE(first, 0) << policy;
            ASSERT_TRUE(are_alike(run, first, step, branch)) << policy << ", step " << step;
            for (int before = 0; before < first; ++before)
              ASSERT_FALSE(are_alike(run, before, step, branch)) << policy << ", step " << step;
          }
        }
      });
    }
  }
}

TEST(WireRun, OfPoliciesThatTheHostTakesPartInNone) {
  for (const std::string& policy :
       {std::string("paper"), std::string("displaced"), with_rules(R"({"mode": "rows 0.5 fp8"})"),
        with_rules(R"({"mode": "late bf16", "steps": [2, 3]})"),
        with_rules(R"({"mode": "residual int4"})", R"("guard": 0.1, )")}) {
    on_far_ranks(policy, 8, [&](const WireRun& run) {
      for (int step = 0; step < 8; ++step) EXPECT_EQ(run.first_alike(step, 0), -1) << policy;
    });
  }
}

TEST(WireRun, RefusesStepsThatThereAreNot) {
  on_far_ranks("balanced", 8, [](const WireRun& run) {
    EXPECT_EQ(message_of([&] { (void)run.first_alike(8, 0); }),
              "step = 8: expected 0 to 7, as the policy's run has them");
    EXPECT_EQ(message_of([&] { (void)run.first_alike(0, 2); }),
              "branch = 2: expected 0 to 1, as the policy's run has them");
  });
}

}  // namespace
}  // namespace dit
