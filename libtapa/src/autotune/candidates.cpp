#include "autotune/candidates.hpp"

#include <algorithm>
#include <limits>
#include <optional>

namespace tapa {

namespace {

/// Measured over predicted of the plan or, if it was not probed, of the fastest with its algorithm.
std::optional<double> error_of(const Choice& choice, std::span<const Tried> tried) {
  const Tried* nearest = nullptr;
  for (const Tried& t : tried) {
    if (t.measured <= 0 || t.predicted <= 0 || t.choice.algorithm != choice.algorithm) continue;
    if (t.choice == choice) return t.measured / t.predicted;
    if (nearest == nullptr || t.measured < nearest->measured) nearest = &t;
  }
  if (nearest == nullptr) return std::nullopt;
  return nearest->measured / nearest->predicted;
}

}  // namespace

std::vector<Candidate> corrected(std::vector<Candidate> ranked, std::span<const Tried> tried) {
  double least = std::numeric_limits<double>::infinity();
  for (const Tried& t : tried) least = std::min(least, error_of(t.choice, tried).value_or(least));
  if (least == std::numeric_limits<double>::infinity()) return ranked;
  for (Candidate& candidate : ranked) {
    const std::optional<double> error = error_of(candidate.choice, tried);
    candidate.seconds *= error.value_or(least);
    candidate.measured = error.has_value();
  }
  std::ranges::stable_sort(ranked, {}, &Candidate::seconds);
  return ranked;
}

std::vector<Choice> plausible(const std::vector<Candidate>& ranked, std::size_t most) {
  std::vector<Choice> list;
  for (const Candidate& candidate : ranked) {
    if (list.size() == most) break;
    const double limit = candidate.measured && !list.empty() ? kSlower : kHopeless;
    if (candidate.seconds > limit * ranked.front().seconds) continue;
    const auto same = [&](const Choice& c) { return c.algorithm == candidate.choice.algorithm; };
    if (std::ranges::none_of(list, same)) list.push_back(candidate.choice);
  }
  return list;
}

}  // namespace tapa
