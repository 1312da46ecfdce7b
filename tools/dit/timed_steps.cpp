#include "timed_steps.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>

namespace dit::tool {

namespace {

/// Ratios of V-Major count by quarters.
std::string kind_of(const WirePlan& plan, int step) {
  const auto text = [&](AttentionTensor tensor, int layer, int branch) {
    WireMode mode = plan.mode(tensor, plan.shape().slow_level, layer, step, branch);
    if (mode.stays) mode.stays = std::floor(std::min(0.75, *mode.stays) * 4) / 4;
    return to_string(mode) + ",";
  };
  std::string kind;
  for (int layer = 0; layer < plan.shape().layers; ++layer) {
    for (int tensor = 0; tensor < kAttentionTensors; ++tensor) {
      for (const int branch : {0, 1}) {
        kind += text(static_cast<AttentionTensor>(tensor), layer, branch);
      }
    }
  }
  return kind;
}

}  // namespace

std::vector<int> step_kinds(const GenerateOptions& options, int layers) {
  const int steps = options.sampler.steps;
  const WirePlan plan = far_plan(options.wire.value_or(WirePolicy{}), layers, steps);
  std::map<std::string, int> numbers;
  std::vector<int> kinds;
  for (int step = 0; step < steps; ++step) {
    const std::string kind = kind_of(plan, step);
    kinds.push_back(numbers.try_emplace(kind, static_cast<int>(numbers.size())).first->second);
  }
  return kinds;
}

std::vector<int> steps_to_time(const std::vector<int>& kinds, int most) {
  std::map<int, std::vector<int>> of_kind;
  for (std::size_t step = 0; step < kinds.size(); ++step) {
    of_kind[kinds[step]].push_back(static_cast<int>(step));
  }
  std::vector<int> timed;
  for (const auto& [kind, steps] : of_kind) {
    const auto count = static_cast<int>(steps.size());
    const int taken = std::min(count, most);
    for (int i = 0; i < taken; ++i) {  // the middle of each part; of the first kind the first step
      const int at = kind == 0 ? i * count / taken : (2 * i + 1) * count / (2 * taken);
      timed.push_back(steps[static_cast<std::size_t>(at)]);
    }
  }
  std::sort(timed.begin(), timed.end());
  return timed;
}

GenerateReport whole_report(const GenerateReport& timed_only, const std::vector<int>& kinds,
                            const std::vector<int>& timed) {
  GenerateReport report = timed_only;
  report.seconds = 0;
  for (std::size_t step = 0; step < kinds.size(); ++step) {
    const auto distance = [&](int other) {
      const bool same = kinds[static_cast<std::size_t>(other)] == kinds[step];
      return std::abs(other - static_cast<int>(step)) + (same ? 0 : static_cast<int>(kinds.size()));
    };
    const int nearest = *std::min_element(timed.begin(), timed.end(),
                                          [&](int a, int b) { return distance(a) < distance(b); });
    report.steps[step] = timed_only.steps[static_cast<std::size_t>(nearest)];
    report.seconds += report.steps[step].seconds;
  }
  return report;
}

}  // namespace dit::tool
