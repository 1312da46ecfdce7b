#include "common/levels.hpp"

#include <algorithm>

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

}  // namespace dit
