// A policy for one run: which rule counts at which place is worked out once, by painting the places that each
// rule covers. Layers that all rules treat alike share their places, so thousands of rules over hundreds of
// layers (V-Major has one rule for each step) cost what the places take.
#include <algorithm>

#include "wire/wire_policy.hpp"
#include "wire/wire_policy_error.hpp"

namespace dit {
namespace {

constexpr AttentionTensor kScattered[] = {AttentionTensor::query, AttentionTensor::key,
                                          AttentionTensor::value};
constexpr AttentionTensor kAll[] = {AttentionTensor::query, AttentionTensor::key, AttentionTensor::value,
                                    AttentionTensor::output};

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

}  // namespace

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
  knows_tokens_ = knows_tokens(policy_);
  is_off_.resize(shape_.levels.size(), 0);
  for (const std::string& name : policy_.off) {
    is_off_[static_cast<std::size_t>(level_named("off", name))] = 1;
  }
  group_layers();
  paint();
  if (uses_v_major()) {
    check_ratios();
  }
}

void WirePlan::group_layers() {
  std::vector<std::uint8_t> begins(static_cast<std::size_t>(shape_.layers) + 1, 0);
  for (const Place& place : places_) {
    for (const int layer : {place.layers.first, place.layers.last + 1}) {
      if (layer > 0 && layer < shape_.layers) {
        begins[static_cast<std::size_t>(layer)] = 1;
      }
    }
  }
  for (int layer = 0; layer < shape_.layers; ++layer) {
    if (layer == 0 || begins[static_cast<std::size_t>(layer)] != 0) {
      first_of_group_.push_back(layer);
    }
    group_of_.push_back(static_cast<int>(first_of_group_.size()) - 1);
  }
}

void WirePlan::paint() {
  cells_.resize(parts().size() * kAttentionTensors * shape_.levels.size() * first_of_group_.size() *
                kBranches * static_cast<std::size_t>(shape_.steps));
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const std::vector<AttentionTensor>& some = policy_.rules[i].tensors;
    for (const AttentionTensor tensor : some.empty() ? std::span(kAll) : std::span(some)) {
      for (int level = places_[i].level; level < static_cast<int>(shape_.levels.size()); ++level) {
        for (const TokenPart tokens : parts()) {
          if (covers(i, tensor, level, places_[i].layers.first, tokens)) {
            paint(i, tensor, level, tokens);
          }
        }
      }
    }
  }
  const auto steps = static_cast<std::size_t>(shape_.steps);
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    const bool after_skip =
        i % steps > 1 && cells_[i - 1].rule > 0 && policy_.rules[cells_[i - 1].rule - 1].mode.skip;
    cells_[i].age = after_skip ? cells_[i - 1].age + 1 : 1;
  }
}

/// One rule's places of a tensor and level; what earlier rules painted there is gone.
void WirePlan::paint(std::size_t rule, AttentionTensor tensor, int level, TokenPart tokens) {
  const WireRange& steps = places_[rule].steps;
  const int end = std::min(steps.last, shape_.steps - 1);
  for (const int layer : first_of_group_) {
    for (int branch = 0; within(places_[rule].layers, layer) && branch < kBranches; ++branch) {
      const int only = policy_.rules[rule].branch;
      if (only >= 0 && only != branch) {
        continue;
      }
      for (int step = std::max(steps.first, 0); step <= end; step += policy_.rules[rule].every) {
        cells_[index_of(tensor, level, layer, step, branch, tokens)].rule =
            static_cast<std::uint32_t>(rule + 1);
      }
    }
  }
}

std::span<const TokenPart> WirePlan::parts() const {
  static constexpr TokenPart kAlike[] = {TokenPart::all};
  static constexpr TokenPart kApart[] = {TokenPart::text, TokenPart::image};
  return knows_tokens_ ? std::span<const TokenPart>(kApart) : std::span<const TokenPart>(kAlike);
}

std::size_t WirePlan::index_of(AttentionTensor tensor, int level, int layer, int step, int branch,
                               TokenPart tokens) const {
  const auto at = [](int number) { return static_cast<std::size_t>(number); };
  const std::size_t part = knows_tokens_ && tokens == TokenPart::image ? 1 : 0;
  const std::size_t of_tensor = part * kAttentionTensors + at(static_cast<int>(tensor));
  const std::size_t of_level = of_tensor * shape_.levels.size() + at(level);
  const std::size_t of_group = of_level * first_of_group_.size() + at(group_of_[at(layer)]);
  return (of_group * kBranches + at(branch)) * at(shape_.steps) + at(step);
}

void WirePlan::check_ratios() const {
  for (const int layer : first_of_group_) {
    for (int step = 0; step < shape_.steps; ++step) {
      for (const int branch : {0, 1}) {
        const std::optional<double> one = v_major(layer, step, branch);
        for (int level = 0; one && level < static_cast<int>(shape_.levels.size()); ++level) {
          for (const AttentionTensor tensor : kScattered) {
            const std::optional<double> other = mode(tensor, level, layer, step, branch).stays;
            if (other && other != one) {
              refuse_policy("v-major of layer " + std::to_string(layer) + " in step " + std::to_string(step),
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
  auto found = std::find(shape_.levels.begin(), shape_.levels.end(), name);
  // A file for links in a node is for those through the memory of a host, too.
  if (found == shape_.levels.end() && name == "node")
    found = std::find(shape_.levels.begin(), shape_.levels.end(), "host");
  if (found == shape_.levels.end()) {
    std::string names;
    for (const std::string& level : shape_.levels) {
      names += (names.empty() ? "" : ", ") + level;
    }
    refuse_policy(where, name, "one of " + names);
  }
  return static_cast<int>(found - shape_.levels.begin());
}

/// `tokens` all: any of them.
bool WirePlan::covers(std::size_t rule, AttentionTensor tensor, int level, int layer,
                      TokenPart tokens) const {
  const std::vector<AttentionTensor>& tensors = policy_.rules[rule].tensors;
  const TokenPart own = policy_.rules[rule].tokens;
  return (own == tokens || own == TokenPart::all || tokens == TokenPart::all) &&
         level >= places_[rule].level && is_off_[static_cast<std::size_t>(level)] == 0 &&
         within(places_[rule].layers, layer) &&
         (tensors.empty() || std::find(tensors.begin(), tensors.end(), tensor) != tensors.end());
}

WireMode WirePlan::mode(AttentionTensor tensor, int level, int layer, int step, int branch,
                        TokenPart tokens) const {
  const Cell& cell = cells_[index_of(tensor, level, layer, step, branch, tokens)];
  WireMode mode = cell.rule > 0 ? mode_on(tensor, policy_.rules[cell.rule - 1].mode) : WireMode{};
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
    mode.skip = cell.age % policy_.most_age != 0;
  }
  return mode;
}

bool WirePlan::touches(AttentionTensor tensor, int level, int layer) const {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (covers(i, tensor, level, layer, TokenPart::all) &&
        !mode_on(tensor, policy_.rules[i].mode).is_exact()) {
      return true;
    }
  }
  return false;
}

bool WirePlan::remembers(AttentionTensor tensor, int level, int layer, WireEnd end, TokenPart tokens) const {
  const WireEnd known = policy_.guard > 0 ? WireEnd::receiver : end;  // the guard looks at what is left there
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (covers(i, tensor, level, layer, tokens) && mode_on(tensor, policy_.rules[i].mode).remembers(known)) {
      return true;
    }
  }
  return false;
}

bool WirePlan::has_v_major(int level, int layer) const {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    for (const AttentionTensor tensor : kScattered) {
      if (policy_.rules[i].mode.stays && covers(i, tensor, level, layer, TokenPart::all)) {
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
