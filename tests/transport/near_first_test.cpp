// In which order a rank looks at the others' buffers.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "topology/topology.hpp"
#include "transport/shm_buffers.hpp"

namespace tapa {
namespace {

std::vector<int> levels_from(const Topology& topology, int self) {
  std::vector<int> level;
  for (int peer = 0; peer < topology.ranks; ++peer) level.push_back(topology.level_of(self, peer));
  return level;
}

TEST(NearFirst, NearRanksAreReadFirst) {
  // A node's sockets and caches, as an override describes them: 2 sockets of 2 caches of 2 ranks.
  const Topology topology = make_uniform_topology({1, 2, 2, 2});
  const auto order = [&](int self) {
    return near_first(static_cast<std::size_t>(self), levels_from(topology, self));
  };
  EXPECT_EQ(order(0), (std::vector<std::uint32_t>{1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(order(3), (std::vector<std::uint32_t>{2, 1, 0, 7, 4, 5, 6}));
  EXPECT_EQ(order(6), (std::vector<std::uint32_t>{7, 4, 5, 2, 3, 0, 1}));
  // Ranks of unlike places, round robin over two sockets.
  EXPECT_EQ(near_first(1, std::vector<int>{1, 0, 1, 0, 1}), (std::vector<std::uint32_t>{3, 0, 2, 4}));
  EXPECT_EQ(near_first(3, std::vector<int>{1, 0, 1, 0, 1}), (std::vector<std::uint32_t>{1, 2, 4, 0}));
  EXPECT_TRUE(near_first(0, std::vector<int>{0}).empty());
}

// Each looks at all others, nearer ones never after farther ones, and no two of a socket at the same time at
// the same buffer of another.
TEST(NearFirst, RanksOfASocketReadDifferentBuffersOfAnother) {
  for (const std::vector<int>& shape :
       {std::vector{1, 2, 2, 2}, {1, 2, 4, 3}, {1, 4, 1, 5}, {1, 3, 2, 1}, {1, 2, 16}}) {
    const Topology topology = make_uniform_topology(shape);
    // By level, group, step at that level.
    std::map<std::array<int, 3>, std::vector<std::uint32_t>> looked_at;
    for (int self = 0; self < topology.ranks; ++self) {
      const std::vector<int> level = levels_from(topology, self);
      const auto order = near_first(static_cast<std::size_t>(self), level);
      auto sorted = order;
      std::ranges::sort(sorted);
      EXPECT_EQ(std::ranges::adjacent_find(sorted), sorted.end());
      EXPECT_EQ(order.size() + 1, level.size());
      EXPECT_TRUE(std::ranges::is_sorted(order, {}, [&](std::uint32_t m) { return level[m]; }));
      std::map<int, int> step;
      for (const std::uint32_t m : order) {
        if (level[m] == 0) continue;
        const auto nearer = static_cast<std::size_t>(level[m] - 1);
        const int group = topology.levels[nearer].group[static_cast<std::size_t>(self)];
        looked_at[{level[m], group, step[level[m]]++}].push_back(m);
      }
    }
    for (auto& [where, buffers] : looked_at) {
      std::ranges::sort(buffers);
      EXPECT_EQ(std::ranges::adjacent_find(buffers), buffers.end()) << topology.name << " level " << where[0];
    }
  }
}

}  // namespace
}  // namespace tapa
