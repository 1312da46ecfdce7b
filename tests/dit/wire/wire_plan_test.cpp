// Which rule counts at which place: against a search through all rules, and for runs of thousands of rules.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "wire/v_major.hpp"
#include "wire/wire_policy.hpp"

namespace dit {
namespace {

constexpr AttentionTensor kTensors[] = {AttentionTensor::query, AttentionTensor::key, AttentionTensor::value,
                                        AttentionTensor::output};

/// What WirePolicy's comment says, place by place.
class Searched {
 public:
  Searched(const WirePolicy& policy, const WirePlan::Shape& shape) : policy_(policy), shape_(shape) {}

  [[nodiscard]] WireMode mode(AttentionTensor tensor, int level, int layer, int step, int branch,
                              TokenPart tokens) const {
    const WireRule* rule = last_rule(tensor, level, layer, step, branch, tokens);
    WireMode mode = rule != nullptr ? rule->mode : WireMode{};
    if (tensor == AttentionTensor::output) mode.stays.reset();
    if (step == 0) {
      mode.skip = mode.late = false;
      mode.rows = 1;
      mode.stays.reset();
    }
    if (mode.late && step == shape_.steps - 1) {
      mode = WireMode{};
      mode.skip = true;
      return mode;
    }
    if (mode.skip && policy_.most_age > 0)
      mode.skip = age(tensor, level, layer, step, branch, tokens) % policy_.most_age != 0;
    return mode;
  }

 private:
  [[nodiscard]] static int from_start(int number, int count) { return number < 0 ? number + count : number; }

  [[nodiscard]] int level_of(const WireRule& rule) const {
    if (rule.level.empty()) return shape_.slow_level;
    return static_cast<int>(std::find(shape_.levels.begin(), shape_.levels.end(), rule.level) -
                            shape_.levels.begin());
  }

  [[nodiscard]] bool covers(const WireRule& rule, AttentionTensor tensor, int level, int layer, int step,
                            int branch) const {
    const int first = from_start(rule.steps.first, shape_.steps),
              last = from_start(rule.steps.last, shape_.steps);
    const bool off = std::count(policy_.off.begin(), policy_.off.end(),
                                shape_.levels[static_cast<std::size_t>(level)]) > 0;
    return !off && level >= level_of(rule) &&
           (rule.tensors.empty() || std::count(rule.tensors.begin(), rule.tensors.end(), tensor) > 0) &&
           layer >= from_start(rule.layers.first, shape_.layers) &&
           layer <= from_start(rule.layers.last, shape_.layers) && step >= first && step <= last &&
           (step - std::max(first, 0)) % rule.every == 0 && (rule.branch < 0 || rule.branch == branch);
  }

  [[nodiscard]] const WireRule* last_rule(AttentionTensor tensor, int level, int layer, int step, int branch,
                                          TokenPart tokens) const {
    const WireRule* found = nullptr;
    for (const WireRule& rule : policy_.rules) {
      const bool means = rule.tokens == TokenPart::all || rule.tokens == tokens;
      if (means && covers(rule, tensor, level, layer, step, branch)) found = &rule;
    }
    return found;
  }

  [[nodiscard]] int age(AttentionTensor tensor, int level, int layer, int step, int branch,
                        TokenPart tokens) const {
    int age = 1;
    for (int before = step - 1; before > 0; --before, ++age) {
      const WireRule* rule = last_rule(tensor, level, layer, before, branch, tokens);
      if (rule == nullptr || !rule->mode.skip) break;
    }
    return age;
  }

  const WirePolicy& policy_;
  const WirePlan::Shape& shape_;
};

class Drawn {
 public:
  explicit Drawn(unsigned seed) : random_(seed) {}
  int below(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }

  WireRange range(int count) {
    int first = below(count + 3), last = below(count + 3);
    if (first > last) std::swap(first, last);
    switch (below(4)) {
      case 0:
        return {};
      case 1:
        return {first - count - 3, last - count - 3};  // both from the end, also before the start
      case 2:
        return {first, -1 - below(2)};
      default:
        return {first, last};  // also behind the end
    }
  }

  /// `apart`: some rules are for text or for image tokens, and none is V-Major's.
  WireRule rule(const WirePlan::Shape& shape, bool apart) {
    const char* const modes[] = {"skip",          "skip", "late bf16",      "residual int2",
                                 "rows 0.5 int4", "full", "v-major 0.5 fp8"};
    WireRule rule;
    rule.mode = parse_wire_mode(modes[below(apart ? 6 : 7)]);
    if (apart) rule.tokens = static_cast<TokenPart>(below(3));
    for (const AttentionTensor tensor : kTensors) {
      if (below(3) == 0) rule.tensors.push_back(tensor);
    }
    if (below(2) == 0)
      rule.level = shape.levels[static_cast<std::size_t>(below(static_cast<int>(shape.levels.size())))];
    rule.layers = range(shape.layers);
    rule.steps = range(shape.steps);
    rule.every = 1 + below(4);
    rule.branch = below(4) - 2 < 0 ? -1 : below(2);
    return rule;
  }

 private:
  std::mt19937 random_;
};

TEST(WirePlan, TheLastRuleCountsEverywhere) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    Drawn drawn(seed);
    const WirePlan::Shape shape{1 + drawn.below(6), 1 + drawn.below(9), {"node", "rack", "world"}, 1};
    WirePolicy policy;
    policy.most_age = drawn.below(4);
    if (drawn.below(4) == 0) policy.off = {"rack"};
    const bool apart = seed % 2 == 1;
    for (int rules = drawn.below(7); rules > 0; --rules) policy.rules.push_back(drawn.rule(shape, apart));
    const WirePlan plan(policy, shape);
    const bool known = std::any_of(policy.rules.begin(), policy.rules.end(),
                                   [](const WireRule& rule) { return rule.tokens != TokenPart::all; });
    ASSERT_EQ(plan.parts().size(), known ? 2U : 1U);
    const Searched searched(policy, shape);
    for (const AttentionTensor tensor : kTensors) {
      for (int place = 0; place < 3 * shape.layers * shape.steps * 2; ++place) {
        const int level = place % 3, branch = place / 3 % 2, layer = place / 6 % shape.layers,
                  step = place / 6 / shape.layers;
        for (const TokenPart tokens : {TokenPart::text, TokenPart::image}) {
          const WireMode mode = plan.mode(tensor, level, layer, step, branch, tokens);
          ASSERT_EQ(to_string(mode), to_string(searched.mode(tensor, level, layer, step, branch, tokens)))
              << "seed " << seed << ", " << to_string(tensor) << ", level " << level << ", layer " << layer
              << ", step " << step << ", branch " << branch << ", " << to_string(tokens);
          ASSERT_EQ(plan.mode(tensor, level, plan.first_alike(layer), step, branch, tokens), mode);
        }
      }
    }
  }
}

TEST(WirePlan, LayersThatNoRuleTellsApartAreAlike) {
  WirePolicy policy;
  policy.rules.resize(2);
  policy.rules[0].layers = {2, -1};
  policy.rules[1].layers = {-3, 7};
  const WirePlan plan(policy, {9, 4, {"node", "world"}, 1});
  std::vector<int> first;
  for (int layer = 0; layer < 9; ++layer) first.push_back(plan.first_alike(layer));
  EXPECT_EQ(first, (std::vector<int>{0, 0, 2, 2, 2, 2, 6, 6, 8}));
}

// Each took minutes when every place was looked for in all rules: the test's time limit is what fails then.
TEST(WirePlan, ARatioForEachOfThousandsOfSteps) {
  constexpr int kLayers = 400, kSteps = 4000;
  const WirePlan plan(wire_policy_of(parse_v_major("v-major:warmup=5,refresh=10"), kSteps),
                      {kLayers, kSteps, {"node", "rack", "world"}, 1});
  EXPECT_EQ(plan.v_major(kLayers - 1, 0, 0), std::nullopt);
  double active = 0;
  for (int step = 0; step < kSteps; ++step) active += plan.active_fraction(step);
  EXPECT_NEAR(active / kSteps, mean_active_fraction(parse_v_major("v-major:warmup=5,refresh=10"), kSteps),
              1e-9);
}

TEST(WirePlan, ARuleForEachLayerAndStep) {
  constexpr int kLayers = 150, kSteps = 150;
  WirePolicy policy;
  for (int layer = 0; layer < kLayers; ++layer) {
    for (int step = 0; step < kSteps; ++step) {
      WireRule rule;
      rule.mode = parse_wire_mode("v-major 0." + std::to_string(1 + (layer + step) % 9) + " fp8");
      rule.layers = {layer, layer};
      rule.steps = {step, step};
      policy.rules.push_back(rule);
    }
  }
  const WirePlan plan(policy, {kLayers, kSteps, {"node", "world"}, 1});
  EXPECT_EQ(plan.v_major(7, 9, 1), std::optional(0.8));
  EXPECT_EQ(plan.v_major(7, 0, 1), std::nullopt);
}

}  // namespace
}  // namespace dit
