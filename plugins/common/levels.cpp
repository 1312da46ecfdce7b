#include "common/levels.hpp"

#include <algorithm>
#include <functional>
#include <ranges>

namespace dit {

std::string words_of(const Levels& levels) {
  std::string text;
  for (const std::string& name : levels.names) text += (text.empty() ? "levels " : ", ") + name;
  return text + (levels.slow < static_cast<int>(levels.names.size())
                     ? ", slow from " + levels.names[static_cast<std::size_t>(levels.slow)]
                     : ", all in one node");
}

Levels levels_of_nodes(const std::vector<int>& node_of, int rank) {
  const int mine = node_of[static_cast<std::size_t>(rank)];
  Levels levels{{"node", "world"}, {}, 1};
  for (const int node : node_of) levels.of.push_back(node == mine ? 0 : 1);
  if (std::all_of(node_of.begin(), node_of.end(), [&](int node) { return node == mine; })) levels.slow = 2;
  return levels;
}

Levels levels_of_reach(const std::vector<int>& node_of, const std::vector<int>& group_of, int rank) {
  const auto ranks = std::views::iota(std::size_t{0}, node_of.size());
  const auto joined_by_host = [&](std::size_t a, std::size_t b) {
    return node_of[a] == node_of[b] && group_of[a] != group_of[b];
  };
  const bool all_reach = std::ranges::none_of(ranks, [&](std::size_t a) {
    return std::ranges::any_of(ranks, [&](std::size_t b) { return joined_by_host(a, b); });
  });
  if (all_reach) return levels_of_nodes(node_of, rank);
  const auto own = static_cast<std::size_t>(rank);
  Levels levels{{"gpu", "host"}, {}, 1};
  for (const std::size_t peer : ranks)
    levels.of.push_back(node_of[peer] != node_of[own] ? 2 : joined_by_host(peer, own) ? 1 : 0);
  if (std::ranges::adjacent_find(node_of, std::ranges::not_equal_to()) != node_of.end())
    levels.names.emplace_back("world");
  return levels;
}

}  // namespace dit
