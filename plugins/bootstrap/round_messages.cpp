#include "bootstrap/round_messages.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "exchange/plugin_guard.hpp"

namespace dit {
namespace {

constexpr std::size_t kAtOnce = 4;  ///< steps of the first message; contexts seldom have more channels

struct Head {
  std::uint64_t count = 0;
  std::array<NextStep, kAtOnce> steps;
};

// Steps beyond those of the heads: as many of each rank as the one with the most has.
void gather_rest(CallerFunctions& functions, std::span<const NextStep> mine,
                 const std::vector<std::uint64_t>& counts, std::vector<std::vector<NextStep>>& steps) {
  const std::uint64_t most = *std::max_element(counts.begin(), counts.end());
  if (most <= kAtOnce) return;
  constexpr std::uint64_t kMost = std::uint64_t{1} << 20;
  if (most > kMost)
    throw PluginFailure(DIT_ERROR_COMMUNICATION, "allgather of the program gave what no rank has sent: " +
                                                     std::to_string(most) + " channels");
  const std::size_t rest = most - kAtOnce;
  std::vector<NextStep> own(rest);
  if (mine.size() > kAtOnce) std::copy(mine.begin() + kAtOnce, mine.end(), own.begin());
  std::vector<NextStep> all(rest * steps.size());
  functions.allgather(own.data(), all.data(), rest * sizeof(NextStep));
  for (std::size_t rank = 0; rank < steps.size(); ++rank)
    if (counts[rank] > kAtOnce)
      steps[rank].insert(steps[rank].end(), &all[rank * rest], &all[rank * rest] + (counts[rank] - kAtOnce));
}

}  // namespace

Gathered gather_steps(CallerFunctions& functions, std::span<const NextStep> mine,
                      std::span<const std::uint64_t> blocks) {
  const auto size = static_cast<std::size_t>(functions.size());
  Head head;
  head.count = mine.size();
  std::copy_n(mine.begin(), std::min(mine.size(), kAtOnce), head.steps.begin());
  const std::size_t block_bytes = 2 * size * sizeof(std::uint64_t);
  std::vector<std::byte> own(sizeof(Head) + block_bytes);
  std::memcpy(own.data(), &head, sizeof(Head));
  if (!blocks.empty()) std::memcpy(own.data() + sizeof(Head), blocks.data(), block_bytes);
  std::vector<std::byte> all(own.size() * size);
  functions.allgather(own.data(), all.data(), own.size());

  Gathered gathered;
  gathered.blocks.resize(2 * size * size);
  std::vector<std::uint64_t> counts;
  for (std::size_t rank = 0; rank < size; ++rank) {
    const std::byte* const from = &all[rank * own.size()];
    std::memcpy(&head, from, sizeof(Head));
    std::memcpy(&gathered.blocks[rank * 2 * size], from + sizeof(Head), block_bytes);
    counts.push_back(head.count);
    gathered.steps.emplace_back(
        head.steps.begin(),
        head.steps.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(head.count, kAtOnce)));
  }
  gather_rest(functions, mine, counts, gathered.steps);
  return gathered;
}

std::vector<std::uint64_t> gather_blocks(CallerFunctions& functions, std::span<const std::uint64_t> mine) {
  std::vector<std::uint64_t> all(mine.size() * static_cast<std::size_t>(functions.size()));
  functions.allgather(mine.data(), all.data(), mine.size_bytes());
  return all;
}

}  // namespace dit
