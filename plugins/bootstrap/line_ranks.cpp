#include "bootstrap/line_ranks.hpp"

#include <algorithm>
#include <cstring>

#include "common/overdue.hpp"

namespace dit {

std::optional<PluginFailure> LineRanks::gather_within(const void* mine, void* all, std::size_t bytes,
                                                      double limit) {
  const auto step = std::make_shared<GatherStep>(doing_, mine, bytes, size());
  line_->add(step);
  if (!line_->wait(*step, limit)) {
    const PluginFailure late = overdue(*line_, *step, limit);
    line_->fail(late.what());
    return late;
  }
  std::memcpy(all, step->all().data(), step->all().size());
  return std::nullopt;
}

void LineRanks::allgather(const void* mine, void* all, std::size_t bytes) {
  if (const auto late = gather_within(mine, all, bytes, limit_)) throw PluginFailure(*late);
}

std::optional<int> LineRanks::greatest_within(int mine, double limit) {
  std::vector<int> all(static_cast<std::size_t>(size()));
  if (gather_within(&mine, all.data(), sizeof(mine), limit)) return std::nullopt;
  return *std::max_element(all.begin(), all.end());
}

PluginFailure overdue(const Line& line, const Step& step, double limit) {
  const std::string what =
      step.name() + (step.channel() == 0 ? "" : " of channel " + std::to_string(step.channel()));
  const std::string missing = line.missing(step);
  return {DIT_ERROR_TIMEOUT,
          overdue_words(what, limit, line.rank(), line.size(), limit) +
              (missing.empty() ? "which rank is missing cannot be seen from here" : "missing: " + missing)};
}

}  // namespace dit
