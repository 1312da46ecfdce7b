/// Wire policies for tests.
#pragma once

#include <utility>
#include <vector>

#include "wire/wire_policy.hpp"

namespace dit::test {

inline constexpr int kSlow = 1;

inline WirePlan::Shape run_shape(int layers = 9, int steps = 50) {
  return {layers, steps, {"node", "rack", "world"}, kSlow};
}

inline WireRule rule(const char* mode, WireRange steps = {}, WireRange layers = {}) {
  WireRule rule;
  rule.mode = parse_wire_mode(mode);
  rule.steps = steps;
  rule.layers = layers;
  return rule;
}

inline WirePolicy policy(std::vector<WireRule> rules) {
  WirePolicy policy;
  policy.rules = std::move(rules);
  return policy;
}

}  // namespace dit::test
