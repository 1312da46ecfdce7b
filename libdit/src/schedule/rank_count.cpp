#include <algorithm>
#include <cstdio>
#include <stdexcept>

#include "schedule/model_cost.hpp"

namespace dit {
namespace {

void check(const std::vector<int>& counts) {
  if (counts.empty())
    throw std::invalid_argument("rank counts to compare: none given, expected at least one");
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const int least = i == 0 ? 1 : counts[i - 1] + 1;
    if (counts[i] < least) {
      throw std::invalid_argument("rank counts to compare: " + std::to_string(counts[i]) + " as number " +
                                  std::to_string(i + 1) + ", expected at least " + std::to_string(least) +
                                  " (ascending)");
    }
  }
}

std::string ranks_text(int ranks) {
  return std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
}

template <class... Values>
std::string formatted(const char* format, Values... values) {
  char text[120];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

std::string words_of(const RankAdvice& advice) {
  const auto of = [&](int ranks) {
    return *std::find_if(advice.counts.begin(), advice.counts.end(),
                         [&](const RankPrediction& count) { return count.ranks == ranks; });
  };
  const RankPrediction best = of(advice.best);
  const RankPrediction& first = advice.counts.front();
  std::string words = "fastest on " + ranks_text(best.ranks) +
                      formatted(": %.4g ms with %s", best.prediction.seconds * 1e3, to_string(best.schedule));
  if (best.ranks != first.ranks && best.prediction.seconds > 0) {
    words += formatted(", %.3g times as fast as ", first.prediction.seconds / best.prediction.seconds) +
             ranks_text(first.ranks);
  }
  if (advice.slower_from == 0) return words;
  const RankPrediction slower = of(advice.slower_from);
  const double waiting = slower.prediction.exposed_seconds / slower.prediction.seconds;
  return words + "; " + ranks_text(slower.ranks) +
         formatted(" are slower: %.4g ms, of which %.0f %% waiting for exchanges",
                   slower.prediction.seconds * 1e3, waiting * 100);
}

}  // namespace

RankAdvice best_rank_count(const BlockGraphOptions& graph, const ForwardShape& shape,
                           const MachineRates& rates, const std::vector<int>& counts,
                           const PredictOptions& options) {
  check(counts);
  StepGraph steps = transformer_graph(graph);
  RankAdvice advice;
  double best = 0;
  for (const int ranks : counts) {
    ForwardShape on_ranks = shape;
    on_ranks.ranks = ranks;
    estimate(steps, on_ranks, rates);
    const ChosenOrder chosen = best_order(steps, options);
    advice.counts.push_back({ranks, chosen.schedule, chosen.prediction});
    if (advice.counts.size() == 1 || chosen.prediction.seconds < best) {
      best = chosen.prediction.seconds;
      advice.best = ranks;
    }
  }
  for (const RankPrediction& count : advice.counts) {
    if (advice.slower_from == 0 && count.ranks > advice.best && count.prediction.seconds > best) {
      advice.slower_from = count.ranks;
    }
  }
  advice.words = words_of(advice);
  return advice;
}

}  // namespace dit
