#include "pairs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tapa {
namespace {

using ::testing::ElementsAre;

TEST(Pairs, OnePairOfALevelAlone) {
  const Topology topology = make_uniform_topology({2, 2, 2});  // ranks 0 1 | 2 3 || 4 5 | 6 7
  EXPECT_THAT(pair_up(topology, 0, false), ElementsAre(1, 0, -1, -1, -1, -1, -1, -1));
  EXPECT_THAT(pair_up(topology, 1, false), ElementsAre(2, -1, 0, -1, -1, -1, -1, -1));
  EXPECT_THAT(pair_up(topology, 2, false), ElementsAre(4, -1, -1, -1, 0, -1, -1, -1));
}

TEST(Pairs, AllPairsOfALevelAreDisjoint) {
  const Topology topology = make_uniform_topology({2, 2, 2});
  EXPECT_THAT(pair_up(topology, 0, true), ElementsAre(1, 0, 3, 2, 5, 4, 7, 6));
  EXPECT_THAT(pair_up(topology, 1, true), ElementsAre(2, 3, 0, 1, 6, 7, 4, 5));
  EXPECT_THAT(pair_up(topology, 2, true), ElementsAre(4, 5, 6, 7, 0, 1, 2, 3));
}

TEST(Pairs, OddGroupsLeaveOneOut) {
  EXPECT_THAT(pair_up(make_uniform_topology({3}), 0, true), ElementsAre(1, 0, -1));
}

TEST(Pairs, LevelWithoutPairs) {
  EXPECT_THAT(pair_up(make_uniform_topology({3, 1}), 0, true), ElementsAre(-1, -1, -1));
  EXPECT_THAT(pair_up(make_uniform_topology({1}), 0, true), ElementsAre(-1));
}

TEST(Pairs, EveryPairHasTheLevel) {
  const Topology topology = make_uniform_topology({3, 2, 5});
  for (int level = 0; level < 3; ++level) {
    const std::vector<int> partners = pair_up(topology, level, true);
    for (int r = 0; r < topology.ranks; ++r) {
      const int partner = partners[static_cast<std::size_t>(r)];
      if (partner >= 0) {
        EXPECT_EQ(partners[static_cast<std::size_t>(partner)], r);
        EXPECT_EQ(topology.level_of(r, partner), level);
      }
    }
  }
}

TEST(NicShare, TheBusiestNodesSumOverItsNics) {
  Topology topology = make_uniform_topology({2, 2});
  EXPECT_DOUBLE_EQ(nic_share(topology, {3, 4, 0, 5}), 7);
  topology.nics.push_back(topology.nics[0]);
  topology.nics.push_back(topology.nics[1]);
  EXPECT_DOUBLE_EQ(nic_share(topology, {3, 4, 0, 5}), 3.5);
}

TEST(NicShare, NoLevelCrossesNics) {
  Topology topology = make_uniform_topology({4});
  topology.nic_level = 1;
  EXPECT_EQ(nic_share(topology, {1, 1, 1, 1}), 0);
}

TEST(NicShare, EveryRankIsANode) {
  Topology topology = make_uniform_topology({3});
  topology.nic_level = 0;
  topology.nics.assign(3, Nic{});
  EXPECT_DOUBLE_EQ(nic_share(topology, {1, 5, 2}), 5);
}

}  // namespace
}  // namespace tapa
