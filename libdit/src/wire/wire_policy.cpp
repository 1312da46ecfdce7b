#include "wire/wire_policy.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

namespace dit {
namespace {

constexpr int kFar = 1 << 20;  // more layers or steps than anything has
constexpr AttentionTensor kScattered[] = {AttentionTensor::query, AttentionTensor::key,
                                          AttentionTensor::value};

[[noreturn]] void refuse(const std::string& what, const std::string& value, const std::string& expected) {
  throw std::invalid_argument("wire policy: " + what + " = " + value + ": expected " + expected);
}

void check_range(const std::string& what, const WireRange& range) {
  const bool sound = range.first > -kFar && range.first < kFar && range.last > -kFar && range.last < kFar;
  const bool same_end = (range.first < 0) == (range.last < 0);
  if (!sound || (same_end && range.first > range.last)) {
    refuse(what, std::to_string(range.first) + ".." + std::to_string(range.last),
           "first and last, the first one not behind the last");
  }
}

void check_rule(const WireRule& rule, std::size_t number) {
  const std::string name = "rules[" + std::to_string(number) + "].";
  check_range(name + "layers", rule.layers);
  check_range(name + "steps", rule.steps);
  if (rule.every < 1 || rule.every >= kFar) {
    refuse(name + "every", std::to_string(rule.every), "at least 1");
  }
  if (rule.branch < -1 || rule.branch > 1) {
    refuse(name + "branch", std::to_string(rule.branch), "0, 1, or -1 for both");
  }
  const WireMode& mode = rule.mode;
  if (!(mode.rows > 0 && mode.rows <= 1)) {
    refuse(name + "mode", "rows " + std::to_string(mode.rows), "a fraction more than 0, at most 1");
  }
  if (mode.stays && !(*mode.stays >= 0 && *mode.stays <= 1)) {
    refuse(name + "mode", "v-major " + std::to_string(*mode.stays), "a ratio from 0 to 1");
  }
  if (mode.stays && (mode.rows < 1 || mode.skip || mode.late)) {
    refuse(name + "mode", to_string(mode), "v-major without rows, skip or late");
  }
}

/// Rows of the output are of nobody's V.
WireMode mode_on(AttentionTensor tensor, const WireMode& mode) {
  WireMode own = mode;
  if (tensor == AttentionTensor::output) {
    own.stays.reset();
  }
  return own;
}

int from_start(int number, int count) {
  return number < 0 ? number + count : number;
}

bool within(const WireRange& range, int number) {
  return range.first <= number && number <= range.last;
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

void check(const WirePolicy& policy) {
  if (!(policy.momentum >= 0 && policy.momentum <= 1)) {
    refuse("momentum", std::to_string(policy.momentum), "0 to 1");
  }
  if (policy.most_age < 0 || policy.most_age >= kFar) {
    refuse("most_age", std::to_string(policy.most_age), "at least 0");
  }
  if (!(policy.guard >= 0 && policy.guard <= 1e6)) {
    refuse("guard", std::to_string(policy.guard), "at least 0");
  }
  for (std::size_t i = 0; i < policy.rules.size(); ++i) {
    check_rule(policy.rules[i], i);
  }
}

WirePlan::WirePlan(const WirePolicy& policy, const Shape& shape) : policy_(policy), shape_(shape) {
  check(policy_);
  for (std::size_t i = 0; i < policy_.rules.size(); ++i) {
    const WireRule& rule = policy_.rules[i];
    Place place;
    place.level = shape_.slow_level;
    if (!rule.level.empty()) {
      place.level = level_named("rules[" + std::to_string(i) + "].level", rule.level);
    }
    place.layers = {from_start(rule.layers.first, shape_.layers),
                    from_start(rule.layers.last, shape_.layers)};
    place.steps = {from_start(rule.steps.first, shape_.steps), from_start(rule.steps.last, shape_.steps)};
    places_.push_back(place);
  }
  is_off_.resize(shape_.levels.size(), 0);
  for (const std::string& name : policy_.off) {
    is_off_[static_cast<std::size_t>(level_named("off", name))] = 1;
  }
  if (uses_v_major()) {
    check_ratios();
  }
}

void WirePlan::check_ratios() const {
  for (int layer = 0; layer < shape_.layers; ++layer) {
    for (int step = 0; step < shape_.steps; ++step) {
      for (const int branch : {0, 1}) {
        const std::optional<double> one = v_major(layer, step, branch);
        for (int level = 0; one && level < static_cast<int>(shape_.levels.size()); ++level) {
          for (const AttentionTensor tensor : kScattered) {
            const std::optional<double> other = mode(tensor, level, layer, step, branch).stays;
            if (other && other != one) {
              refuse("v-major of layer " + std::to_string(layer) + " in step " + std::to_string(step),
                     std::to_string(*one) + " and " + std::to_string(*other),
                     "one ratio for all tensors and levels");
            }
          }
        }
      }
    }
  }
}

int WirePlan::level_named(const std::string& where, const std::string& name) const {
  const auto found = std::find(shape_.levels.begin(), shape_.levels.end(), name);
  if (found == shape_.levels.end()) {
    std::string names;
    for (const std::string& level : shape_.levels) {
      names += (names.empty() ? "" : ", ") + level;
    }
    refuse(where, name, "one of " + names);
  }
  return static_cast<int>(found - shape_.levels.begin());
}

bool WirePlan::covers(std::size_t rule, AttentionTensor tensor, int level, int layer) const {
  const std::vector<AttentionTensor>& tensors = policy_.rules[rule].tensors;
  return level >= places_[rule].level && is_off_[static_cast<std::size_t>(level)] == 0 &&
         within(places_[rule].layers, layer) &&
         (tensors.empty() || std::find(tensors.begin(), tensors.end(), tensor) != tensors.end());
}

const WireMode* WirePlan::found(AttentionTensor tensor, int level, int layer, int step, int branch) const {
  for (std::size_t i = places_.size(); i-- > 0;) {
    const WireRule& rule = policy_.rules[i];
    const WireRange& steps = places_[i].steps;
    if (covers(i, tensor, level, layer) && within(steps, step) &&
        (step - std::max(steps.first, 0)) % rule.every == 0 && (rule.branch < 0 || rule.branch == branch)) {
      return &rule.mode;
    }
  }
  return nullptr;
}

WireMode WirePlan::mode(AttentionTensor tensor, int level, int layer, int step, int branch) const {
  const WireMode* rule = found(tensor, level, layer, step, branch);
  WireMode mode = rule != nullptr ? mode_on(tensor, *rule) : WireMode{};
  if (step == 0) {
    mode.skip = false;
    mode.late = false;
    mode.rows = 1;
    mode.stays.reset();
  }
  if (mode.late && step == shape_.steps - 1) {
    mode = WireMode{};
    mode.skip = true;  // no step would use what travels
    return mode;
  }
  if (mode.skip && policy_.most_age > 0) {
    int age = 1;  // of what would be used, if nobody asked how old it is
    for (int before = step - 1; before > 0; --before, ++age) {
      const WireMode* earlier = found(tensor, level, layer, before, branch);
      if (earlier == nullptr || !earlier->skip) {
        break;
      }
    }
    mode.skip = age % policy_.most_age != 0;
  }
  return mode;
}

bool WirePlan::touches(AttentionTensor tensor, int level, int layer) const {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (covers(i, tensor, level, layer) && !mode_on(tensor, policy_.rules[i].mode).is_exact()) {
      return true;
    }
  }
  return false;
}

bool WirePlan::remembers(AttentionTensor tensor, int level, int layer, WireEnd end) const {
  const WireEnd known = policy_.guard > 0 ? WireEnd::receiver : end;  // the guard looks at what is left there
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (covers(i, tensor, level, layer) && mode_on(tensor, policy_.rules[i].mode).remembers(known)) {
      return true;
    }
  }
  return false;
}

bool WirePlan::has_v_major(int level, int layer) const {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    for (const AttentionTensor tensor : kScattered) {
      if (policy_.rules[i].mode.stays && covers(i, tensor, level, layer)) {
        return true;
      }
    }
  }
  return false;
}

bool WirePlan::uses_v_major(int layer) const {
  for (int level = 0; level < static_cast<int>(shape_.levels.size()); ++level) {
    if (has_v_major(level, layer)) {
      return true;
    }
  }
  return false;
}

bool WirePlan::uses_v_major() const {
  for (int layer = 0; layer < shape_.layers; ++layer) {
    if (uses_v_major(layer)) {
      return true;
    }
  }
  return false;
}

std::optional<double> WirePlan::v_major(int layer, int step, int branch) const {
  for (int level = 0; level < static_cast<int>(shape_.levels.size()); ++level) {
    for (const AttentionTensor tensor : kScattered) {
      const WireMode found = mode(tensor, level, layer, step, branch);
      if (found.stays) {
        return found.stays;
      }
    }
  }
  return {};
}

bool WirePlan::brings_all_values(int layer, int step, int branch) const {
  for (int level = 0; level < static_cast<int>(shape_.levels.size()); ++level) {
    const WireMode found = mode(AttentionTensor::value, level, layer, step, branch);
    if (has_v_major(level, layer) && (found.skip || found.leaves_rows())) {
      return false;
    }
  }
  return true;
}

double WirePlan::active_fraction(int step) const {
  double active = 0;
  for (int layer = 0; layer < shape_.layers; ++layer) {
    for (const int branch : {0, 1}) {
      active += 1 - v_major(layer, step, branch).value_or(0);
    }
  }
  return shape_.layers > 0 ? active / (2 * shape_.layers) : 1;
}

bool WirePlan::knows_branches() const {
  return std::any_of(policy_.rules.begin(), policy_.rules.end(),
                     [](const WireRule& rule) { return rule.branch >= 0; });
}

bool WirePlan::ages() const {
  return std::any_of(policy_.rules.begin(), policy_.rules.end(), [](const WireRule& rule) {
    return rule.mode.skip || rule.mode.late || rule.mode.leaves_rows();
  });
}

WirePlan far_plan(WirePolicy policy, int layers, int steps) {
  policy.off.clear();
  for (WireRule& rule : policy.rules) {
    rule.level.clear();
  }
  return {policy, {layers, steps, {"near", "far"}, kFarLevel}};
}

}  // namespace dit
