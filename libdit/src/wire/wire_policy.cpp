#include "wire/wire_policy.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "wire/wire_policy_error.hpp"

namespace dit {
namespace {

constexpr int kFar = 1 << 20;  // more layers or steps than anything has

void check_range(const std::string& what, const WireRange& range) {
  const bool sound = range.first > -kFar && range.first < kFar && range.last > -kFar && range.last < kFar;
  const bool same_end = (range.first < 0) == (range.last < 0);
  if (!sound || (same_end && range.first > range.last)) {
    refuse_policy(what, std::to_string(range.first) + ".." + std::to_string(range.last),
                  "first and last, the first one not behind the last");
  }
}

void check_rule(const WireRule& rule, std::size_t number) {
  const std::string name = "rules[" + std::to_string(number) + "].";
  check_range(name + "layers", rule.layers);
  check_range(name + "steps", rule.steps);
  if (rule.every < 1 || rule.every >= kFar) {
    refuse_policy(name + "every", std::to_string(rule.every), "at least 1");
  }
  if (rule.branch < -1 || rule.branch > 1) {
    refuse_policy(name + "branch", std::to_string(rule.branch), "0, 1, or -1 for both");
  }
  const WireMode& mode = rule.mode;
  if (!(mode.rows > 0 && mode.rows <= 1)) {
    refuse_policy(name + "mode", "rows " + std::to_string(mode.rows), "a fraction more than 0, at most 1");
  }
  if (mode.stays && !(*mode.stays >= 0 && *mode.stays <= 1)) {
    refuse_policy(name + "mode", "v-major " + std::to_string(*mode.stays), "a ratio from 0 to 1");
  }
  if (mode.stays && (mode.rows < 1 || mode.skip || mode.late)) {
    refuse_policy(name + "mode", to_string(mode), "v-major without rows, skip or late");
  }
}

WireRule rule_of(std::string_view mode, WireRange steps = {}, std::vector<AttentionTensor> tensors = {}) {
  WireRule rule;
  rule.tensors = std::move(tensors);
  rule.steps = steps;
  rule.mode = parse_wire_mode(mode);
  return rule;
}

}  // namespace

const char* to_string(AttentionTensor tensor) {
  constexpr std::array<const char*, kAttentionTensors> names = {"q", "k", "v", "o"};
  return names[static_cast<std::size_t>(tensor)];
}

const char* to_string(TokenPart tokens) {
  constexpr std::array<const char*, 3> names = {"all", "text", "image"};
  return names[static_cast<std::size_t>(tokens)];
}

std::vector<std::string> wire_preset_names() {
  return {"exact", "bf16", "int8", "fp8", "fine", "good", "balanced", "fast", "draft", "displaced"};
}

namespace {

/// Up to which part of a run of 50 steps something holds. With fewer steps tensors move farther in each: the
/// part grows by a power of how much fewer they are, by another one below 25.
struct Part {
  double part = 0;
  double power = 0;
  double power_of_few = power;
  [[nodiscard]] int end(int steps) const {
    const double many = part * std::pow(50.0 / std::max(steps, 25), power);
    const double grown = many * std::pow(25.0 / std::min(steps, 25), power_of_few);
    return static_cast<int>(std::lround(std::min(1.0, grown) * steps));
  }
};
struct Parts {
  Part int8, int4, int2;
};

void add_steps(WirePolicy& policy, const char* mode, int first, int end) {
  if (first < end) {
    policy.rules.push_back(rule_of(mode, {first, end - 1}));
  }
}

/// The first steps move far, and those after them decide what the image becomes: what these leave behind all
/// later ones start from.
void add_first_steps(WirePolicy& policy, const Parts& parts, int steps) {
  const int int8 = std::max(1, parts.int8.end(steps));
  const int int4 = std::max(int8, parts.int4.end(steps));
  add_steps(policy, "residual int8", 0, int8);
  add_steps(policy, "residual int4", int8, int4);
  add_steps(policy, "residual int2", int4, parts.int2.end(steps));
}

WirePolicy fine() {
  WirePolicy policy;
  policy.momentum = 0.5F;
  policy.rules = {rule_of("residual int8")};
  return policy;
}

WirePolicy good(int steps) {
  WirePolicy policy;
  policy.momentum = 0.5F;
  policy.rules = {rule_of("residual int4")};
  add_steps(policy, "residual int8", 0, Part{0.06, 1.74, 0.9}.end(steps));
  return policy;
}

WirePolicy balanced(int steps) {
  WirePolicy policy;
  policy.momentum = suitable_momentum(steps);
  policy.rules = {rule_of("residual int1")};
  add_first_steps(policy, {{0.04, 1.585, 1.2}, {0.14, 1.36}, {0.28, 1.585}}, steps);
  return policy;
}

WirePolicy fast(int steps) {
  WirePolicy policy;
  policy.momentum = 0.5F;
  policy.rules = {rule_of("skip"), rule_of("residual int2", {0, -1})};
  policy.rules[1].every = steps >= 40 ? 3 : 2;
  add_first_steps(policy, {{0.02, 1.6}, {0.16, 1.0}, {0.24, 1.0}}, steps);
  return policy;
}

/// As fast, with fewer steps that bring anything: for images that may be a little other ones.
WirePolicy draft(int steps) {
  WirePolicy policy;
  policy.momentum = 0.5F;
  policy.rules = {rule_of("skip"), rule_of("residual int2", {0, -1})};
  policy.rules[1].every = steps >= 40 ? 6 : steps >= 20 ? 3 : 2;
  add_first_steps(policy, {{0.02, 1.6}, {0.10, 1.0}, {0.18, 1.0}}, steps);
  return policy;
}

WirePolicy displaced() {
  constexpr int kFresh = 4;  // steps
  WirePolicy policy;
  policy.rules = {rule_of("bf16"),
                  rule_of("late bf16", {kFresh, -1}, {AttentionTensor::key, AttentionTensor::value})};
  return policy;
}

}  // namespace

float suitable_momentum(int steps) {
  return std::clamp(0.03F * static_cast<float>(steps), 0.5F, 0.75F);
}

WirePolicy wire_preset(std::string_view name, int steps) {
  WirePolicy policy;
  if (name == "bf16" || name == "int8" || name == "fp8") {
    policy.rules = {rule_of(name)};
  } else if (name == "fine") {
    policy = fine();
  } else if (name == "good") {
    policy = good(steps);
  } else if (name == "balanced") {
    policy = balanced(steps);
  } else if (name == "fast") {
    policy = fast(steps);
  } else if (name == "draft") {
    policy = draft(steps);
  } else if (name == "displaced") {
    policy = displaced();
  } else if (name != "exact") {
    throw std::invalid_argument(
        "wire policy '" + std::string(name) +
        "': expected exact, bf16, int8, fp8, fine, good, balanced, fast, draft or displaced");
  }
  policy.name = name;
  return policy;
}

bool knows_tokens(const WirePolicy& policy) {
  return std::any_of(policy.rules.begin(), policy.rules.end(),
                     [](const WireRule& rule) { return rule.tokens != TokenPart::all; });
}

void check(const WirePolicy& policy) {
  if (!(policy.momentum >= 0 && policy.momentum <= 1)) {
    refuse_policy("momentum", std::to_string(policy.momentum), "0 to 1");
  }
  if (policy.most_age < 0 || policy.most_age >= kFar) {
    refuse_policy("most_age", std::to_string(policy.most_age), "at least 0");
  }
  if (!(policy.guard >= 0 && policy.guard <= 1e6)) {
    refuse_policy("guard", std::to_string(policy.guard), "at least 0");
  }
  const bool apart = knows_tokens(policy);
  for (std::size_t i = 0; i < policy.rules.size(); ++i) {
    check_rule(policy.rules[i], i);
    if (apart && policy.rules[i].mode.stays) {
      refuse_policy("rules[" + std::to_string(i) + "].mode", to_string(policy.rules[i].mode),
                    "no v-major in a policy with rules for text or image tokens");
    }
  }
}

}  // namespace dit
