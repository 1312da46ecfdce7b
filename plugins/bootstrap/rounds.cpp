#include "bootstrap/rounds.hpp"

#include <algorithm>

namespace dit {
namespace {

using std::to_string;

const NextStep* of_channel(const std::vector<NextStep>& steps, int channel) {
  const auto found =
      std::find_if(steps.begin(), steps.end(), [&](const NextStep& step) { return step.channel == channel; });
  return found == steps.end() ? nullptr : &*found;
}

std::string words(const NextStep& step) {
  switch (step.kind) {
    case StepKind::exchange:
      return "exchanges blocks";
    case StepKind::part:
      return "makes a part";
    default:
      return "gathers " + to_string(step.bytes) + " bytes of each rank";
  }
}

std::string difference(const NextStep& first, const NextStep& other, std::size_t rank) {
  if (first.number == other.number && first.kind == other.kind && first.bytes == other.bytes) return {};
  return "rank 0 " + words(first) + " as call " + to_string(first.number) + " of channel " +
         to_string(first.channel) + ", rank " + to_string(rank) + " " + words(other) + " as call " +
         to_string(other.number) + ", expected the same calls in the same order on all ranks";
}

}  // namespace

std::vector<ReadyStep> ready_steps(std::span<const std::vector<NextStep>> steps_of) {
  std::vector<ReadyStep> ready;
  for (const NextStep& step : steps_of[0]) {
    ReadyStep found{step.channel, true, {}};
    const bool by_all = std::all_of(steps_of.begin(), steps_of.end(), [&](const auto& steps) {
      const NextStep* const other = of_channel(steps, step.channel);
      if (other == nullptr) return false;
      found.first = found.first && other == steps.data();
      if (found.problem.empty())
        found.problem = difference(step, *other, static_cast<std::size_t>(&steps - steps_of.data()));
      return true;
    });
    if (by_all) ready.push_back(std::move(found));
  }
  std::sort(ready.begin(), ready.end(),
            [](const ReadyStep& a, const ReadyStep& b) { return a.channel < b.channel; });
  return ready;
}

std::string disagreement(std::span<const std::uint64_t> bytes, std::size_t size) {
  for (std::size_t sender = 0; sender < size; ++sender)
    for (std::size_t receiver = 0; receiver < size; ++receiver) {
      const std::uint64_t sent = bytes[sender * 2 * size + receiver];
      const std::uint64_t expected = bytes[receiver * 2 * size + size + sender];
      if (sent != expected)
        return "rank " + to_string(sender) + " sends " + to_string(sent) + " bytes to rank " +
               to_string(receiver) + ", which expects " + to_string(expected);
    }
  return {};
}

}  // namespace dit
