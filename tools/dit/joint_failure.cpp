#include "joint_failure.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace dit::tool {

std::optional<Failure> joint_failure(std::span<const Verdict> ranks) {
  std::vector<std::size_t> failed;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].status != 0) failed.push_back(rank);
  }
  if (failed.empty()) return std::nullopt;
  const auto follows = [&](std::size_t rank) { return ranks[rank].follows; };
  if (!std::all_of(failed.begin(), failed.end(), follows)) std::erase_if(failed, follows);
  const Verdict& first = ranks[failed.front()];
  const bool same =
      failed.size() == ranks.size() &&
      std::all_of(ranks.begin(), ranks.end(), [&](const auto& other) { return other.line == first.line; });
  if (same) return Failure(first.status, first.line, first.said);
  std::string line = "rank " + std::to_string(failed.front()) + ": " + first.line;
  const std::size_t others = failed.size() - 1;
  if (others > 0)
    line += " (" + std::to_string(others) + " other rank" + (others > 1 ? "s" : "") + " failed too)";
  return Failure(first.status, line, first.said);
}

}  // namespace dit::tool
