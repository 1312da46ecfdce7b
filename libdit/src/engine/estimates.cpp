#include "engine/estimates.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "predict/median.hpp"

namespace dit {
namespace {

/// Entry by entry the smallest or the largest figure of all ranks.
std::vector<double> agreed(const std::vector<double>& own, const std::vector<bool>& smallest,
                           ExchangeContext* context) {
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
    result.push_back(smallest[entry] ? *std::min_element(values.begin(), values.end())
                                     : *std::max_element(values.begin(), values.end()));
  }
  return result;
}

bool is_scatter(StepRole role) {
  return is_exchange(role) && role != StepRole::gather_output;
}

std::optional<AttentionTensor> sent_by(StepRole role) {
  switch (role) {
    case StepRole::scatter_query:
      return AttentionTensor::query;
    case StepRole::scatter_key:
      return AttentionTensor::key;
    case StepRole::scatter_value:
      return AttentionTensor::value;
    case StepRole::gather_output:
      return AttentionTensor::output;
    default:
      return std::nullopt;
  }
}

/// Exchanges are alike in all kinds of blocks.
StepEstimates::Key key_of(const StepGraph& graph, const Step& step) {
  return {step.role, step.group, is_exchange(step.role) ? 0 : graph.block_of(step.layer).kind};
}

/// Exchanges that found data waiting looked faster than the links: none is faster, by bytes, than the slowest
/// scatter.
void even_out(std::map<StepEstimates::Key, double>& seconds,
              const std::map<StepEstimates::Key, double>& bytes) {
  double per_byte = 0;
  for (const auto& [key, of_key] : bytes) {
    if (is_scatter(std::get<StepRole>(key)) && of_key > 0)
      per_byte = std::max(per_byte, seconds.at(key) / of_key);
  }
  for (auto& [key, of_key] : seconds) of_key = std::max(of_key, per_byte * bytes.at(key));
}

}  // namespace

double share_of(StepRole role, const TensorShares& sent) {
  const std::optional<AttentionTensor> tensor = sent_by(role);
  return tensor ? sent[static_cast<std::size_t>(*tensor)] : 1;
}

double whole(double seen, double share) {
  return share > 0 ? seen / share : seen;
}

void StepEstimates::add(const StepGraph& graph, const std::vector<double>& step_seconds,
                        const TensorShares& sent, ExchangeContext* context) {
  std::map<Key, std::vector<double>> measured;
  std::map<Key, double> bytes;
  for (std::size_t id = 0; id < graph.steps.size(); ++id) {
    const Step& step = graph.steps[id];
    measured[key_of(graph, step)].push_back(whole(step_seconds[id], share_of(step.role, sent)));
    bytes[key_of(graph, step)] = static_cast<double>(step.slow_bytes);
  }
  std::vector<double> own;
  std::vector<bool> smallest;
  for (const auto& [key, seconds] : measured) {
    own.push_back(median(seconds));
    smallest.push_back(is_exchange(std::get<StepRole>(key)));
  }
  for (const auto& [key, of_key] : bytes) {
    own.push_back(of_key);
    smallest.push_back(false);
  }
  const std::vector<double> of_all = agreed(own, smallest, context);
  std::size_t entry = 0;
  std::map<Key, double> news;
  for (const auto& [key, seconds] : measured) news[key] = of_all[entry++];
  for (auto& [key, of_key] : bytes) of_key = of_all[entry++];
  even_out(news, bytes);
  seconds_.merge(news);  // what is known stays
}

bool StepEstimates::cover(const StepGraph& graph) const {
  return std::all_of(graph.steps.begin(), graph.steps.end(),
                     [&](const Step& step) { return seconds_.count(key_of(graph, step)) != 0; });
}

void StepEstimates::fill(StepGraph& graph, const TensorShares& sent) const {
  for (Step& step : graph.steps) {
    step.seconds = seconds_.at(key_of(graph, step)) * share_of(step.role, sent);
  }
}

}  // namespace dit
