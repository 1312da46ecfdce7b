#include "report.hpp"

#include <algorithm>

namespace dit::tool {

namespace {

struct RankTotals {
  double seconds = 0;
  std::uint64_t cache_bytes = 0;
  std::uint64_t threads = 1;
};

}  // namespace

RunSummary summarise(const Member& member, const GenerateReport& own) {
  const auto steps = member.gather_values(std::span<const StepReport>(own.steps));
  const RankTotals totals{own.seconds, own.cache.total(), own.compute_threads};
  RunSummary summary;
  for (const auto& rank : member.gather_values(std::span<const RankTotals>(&totals, 1))) {
    summary.seconds = std::max(summary.seconds, rank.front().seconds);
    summary.cache_bytes = std::max(summary.cache_bytes, rank.front().cache_bytes);
    summary.threads = std::max(summary.threads, rank.front().threads);
  }
  const auto ranks = static_cast<double>(steps.size());
  const auto count = static_cast<double>(std::max<std::size_t>(1, own.steps.size()));
  for (std::size_t i = 0; i < own.steps.size(); ++i) {
    StepReport sum;
    for (const auto& rank : steps) {
      sum.seconds = std::max(sum.seconds, rank[i].seconds);
      sum.compute_seconds += rank[i].compute_seconds / ranks;
      sum.exposed_seconds += rank[i].exposed_seconds / ranks;
      summary.slow_bytes += static_cast<double>(rank[i].slow_bytes) / count;
      summary.fast_bytes += static_cast<double>(rank[i].fast_bytes) / count;
      summary.codec_ms += rank[i].codec_seconds * 1e3 / ranks / count;
      summary.oldest_row = std::max(summary.oldest_row, rank[i].oldest_row);
    }
    summary.step_ms.push_back(sum.seconds * 1e3);
    summary.compute_ms.push_back(sum.compute_seconds * 1e3);
    summary.exposed_ms.push_back(sum.exposed_seconds * 1e3);
    summary.reused_steps += own.steps[i].reused ? 1 : 0;
    summary.guarded += own.steps[i].guarded;
    summary.active.push_back(own.steps[i].active_fraction);
  }
  return summary;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

nlohmann::ordered_json to_json(const RunSummary& summary) {
  nlohmann::ordered_json json;
  json["seconds"] = summary.seconds;
  json["step_ms"] = median(summary.step_ms);
  json["compute_ms"] = median(summary.compute_ms);
  json["exposed_ms"] = median(summary.exposed_ms);
  json["bytes_slow"] = summary.slow_bytes;
  json["bytes_fast"] = summary.fast_bytes;
  json["cache_bytes"] = summary.cache_bytes;
  json["codec_ms"] = summary.codec_ms;
  json["reused_steps"] = summary.reused_steps;
  json["guarded"] = summary.guarded;
  json["oldest_row"] = summary.oldest_row;
  json["threads"] = summary.threads;
  json["steps"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < summary.step_ms.size(); ++i) {
    json["steps"].push_back({{"ms", summary.step_ms[i]},
                             {"compute_ms", summary.compute_ms[i]},
                             {"exposed_ms", summary.exposed_ms[i]},
                             {"active_fraction", summary.active[i]}});
  }
  return json;
}

}  // namespace dit::tool
