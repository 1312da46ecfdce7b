#include "engine/estimates.hpp"

#include <algorithm>
#include <cstring>

namespace dit {
namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Entry by entry the median over the ranks.
std::vector<double> agreed(const std::vector<double>& own, ExchangeContext* context) {
  if (context == nullptr) {
    return own;
  }
  const auto all = context->all_gather(std::as_bytes(std::span(own)));
  std::vector<double> result;
  for (std::size_t entry = 0; entry < own.size(); ++entry) {
    std::vector<double> values(static_cast<std::size_t>(context->size()));
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      std::memcpy(&values[rank], all.data() + (rank * own.size() + entry) * sizeof(double), sizeof(double));
    }
    result.push_back(median(std::move(values)));
  }
  return result;
}

bool is_scatter(StepRole role) {
  return role == StepRole::scatter_query || role == StepRole::scatter_key || role == StepRole::scatter_value;
}

}  // namespace

void StepEstimates::add(const StepGraph& graph, const std::vector<double>& step_seconds,
                        ExchangeContext* context) {
  std::map<Key, std::vector<double>> measured;
  for (std::size_t id = 0; id < graph.steps.size(); ++id) {
    measured[{graph.steps[id].role, graph.steps[id].group}].push_back(step_seconds[id]);
  }
  std::vector<double> own;
  for (const auto& [key, seconds] : measured) {
    own.push_back(median(seconds));
  }
  const std::vector<double> of_all = agreed(own, context);
  auto value = of_all.begin();
  for (const auto& [key, seconds] : measured) {
    seconds_.emplace(key, *value++);
  }
}

bool StepEstimates::cover(const StepGraph& graph) const {
  return std::all_of(graph.steps.begin(), graph.steps.end(), [&](const Step& step) {
    return seconds_.count({step.role, step.group}) != 0;
  });
}

void StepEstimates::fill(StepGraph& graph, double active_fraction) const {
  const auto mask = seconds_.find({StepRole::mask, 0});
  for (Step& step : graph.steps) {
    step.seconds = seconds_.at({step.role, step.group});
    if (is_scatter(step.role) && active_fraction < 1.0) {
      const double least = mask == seconds_.end() ? 0.0 : std::min(mask->second, step.seconds);
      step.seconds = std::max(step.seconds * active_fraction, least);
    }
  }
}

}  // namespace dit
