#include "profile/policy_search.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace dit {
namespace {

constexpr AttentionTensor kTensors[] = {AttentionTensor::query, AttentionTensor::key, AttentionTensor::value,
                                        AttentionTensor::output};
constexpr double kCheapest = 1e-14;  // prices tried: from next to nothing to more than anything costs
constexpr double kDearest = 1e3;
constexpr double kMostError = 0.4;  // what is farther off says little of what is left of an image

/// The modes of one tensor of one layer, step by step.
struct Path {
  std::vector<std::size_t> modes;
  double bits = 0;
  double noise = 0;
};

Path best_path(const RedundancyProfile& profile, AttentionTensor tensor, int layer, double price) {
  const std::vector<WireMode>& modes = profiled_modes();
  Path path;
  double left = 0;  // by the step before, squared
  bool skipped = true;
  for (int step = 0; step < profile.steps(); ++step) {
    const RedundancyCell& cell = profile.cell(tensor, layer, step);
    std::size_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    double best_noise = 0;
    for (std::size_t i = 0; i < modes.size(); ++i) {
      if (modes[i].skip && (skipped || step == 0)) {  // never twice: what is left would grow unseen
        continue;
      }
      if (i > 0 && !(cell.errors[i] <= kMostError)) {
        continue;
      }
      const double noise = cell.errors[i] * cell.errors[i] + (modes[i].skip ? left : 0);
      const double cost = noise + price * bits_of(modes[i], WireElement::fp32);
      if (cost < least) {
        least = cost;
        best = i;
        best_noise = noise;
      }
    }
    path.modes.push_back(best);
    path.bits += bits_of(modes[best], WireElement::fp32);
    path.noise += best_noise;
    left = best_noise;
    skipped = modes[best].skip;
  }
  return path;
}

/// A rule for each run of steps with one mode.
void add_rules(WirePolicy& policy, const Path& path, AttentionTensor tensor, int layer) {
  for (std::size_t begin = 0; begin < path.modes.size();) {
    std::size_t end = begin;
    while (end < path.modes.size() && path.modes[end] == path.modes[begin]) {
      ++end;
    }
    WireRule rule;
    rule.tensors = {tensor};
    rule.layers = {layer, layer};
    rule.steps = {static_cast<int>(begin), static_cast<int>(end) - 1};
    rule.mode = profiled_modes()[path.modes[begin]];
    policy.rules.push_back(rule);
    begin = end;
  }
}

/// Between a price whose policy, `best`, is good and one whose policy need not be, to a ten-thousandth: the
/// last good policy on the way.
template <typename Good>
FoundPolicy last_good(const RedundancyProfile& profile, FoundPolicy best, double good_price,
                      double other_price, Good good) {
  double near = std::log(good_price);
  double far = std::log(other_price);
  while (std::abs(far - near) > 1e-4) {
    const double middle = (near + far) / 2;
    FoundPolicy found = policy_for_price(profile, std::exp(middle));
    if (good(found)) {
      best = std::move(found);
      near = middle;
    } else {
      far = middle;
    }
  }
  return best;
}

}  // namespace

FoundPolicy policy_for_price(const RedundancyProfile& profile, double price) {
  FoundPolicy found;
  found.policy.name = "planned";
  found.policy.momentum = profile.momentum();
  double bits = 0;
  for (int layer = 0; layer < profile.layers(); ++layer) {
    for (const AttentionTensor tensor : kTensors) {
      const Path path = best_path(profile, tensor, layer, price);
      bits += path.bits;
      found.noise += path.noise;
      add_rules(found.policy, path, tensor, layer);
    }
  }
  const double cells = static_cast<double>(profile.layers()) * kAttentionTensors * profile.steps();
  found.bytes = bits / cells / 16;
  found.noise /= cells;
  return found;
}

FoundPolicy policy_for_noise(const RedundancyProfile& profile, double noise) {
  FoundPolicy least = policy_for_price(profile, kCheapest);
  if (!(least.noise <= noise)) {
    throw std::invalid_argument("noise " + std::to_string(noise) + ": expected at least " +
                                std::to_string(least.noise) + ", what the modes with most bits leave");
  }
  return last_good(profile, std::move(least), kCheapest, kDearest,
                   [&](const FoundPolicy& found) { return found.noise <= noise; });
}

FoundPolicy policy_for_bytes(const RedundancyProfile& profile, double bytes) {
  FoundPolicy fewest = policy_for_price(profile, kDearest);
  if (!(fewest.bytes <= bytes)) {
    throw std::invalid_argument("bytes " + std::to_string(bytes) + ": expected at least " +
                                std::to_string(fewest.bytes) + " of what 16-bit numbers take");
  }
  return last_good(profile, std::move(fewest), kDearest, kCheapest,
                   [&](const FoundPolicy& found) { return found.bytes <= bytes; });
}

}  // namespace dit
