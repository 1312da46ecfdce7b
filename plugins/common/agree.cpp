#include "common/agree.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>

#include "exchange/plugin_guard.hpp"

namespace dit {
namespace {

struct Outcome {
  int status;  ///< DIT_OK where nothing is wrong
  std::array<char, 508> words;
};

std::optional<PluginFailure> failure_of(const std::function<void()>& step) {
  try {
    step();
    return std::nullopt;
  } catch (const PluginFailure& failure) {
    return failure;
  } catch (const std::exception& error) {
    return PluginFailure(DIT_ERROR_INTERNAL, error.what());
  }
}

}  // namespace

void together(Ranks& ranks, const std::function<void()>& step) {
  const std::optional<PluginFailure> mine = failure_of(step);
  Outcome outcome{};
  if (mine) {
    outcome.status = mine->status();
    std::snprintf(outcome.words.data(), outcome.words.size(), "%s", mine->what());
  }
  const std::vector<Outcome> all = gather(ranks, outcome);
  if (mine) throw PluginFailure(*mine);
  const auto first =
      std::find_if(all.begin(), all.end(), [](const Outcome& each) { return each.status != DIT_OK; });
  if (first == all.end()) return;
  throw PluginFailure(static_cast<dit_status>(first->status),
                      "rank " + std::to_string(first - all.begin()) + ": " + first->words.data());
}

}  // namespace dit
