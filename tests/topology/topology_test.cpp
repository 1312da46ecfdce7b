#include "topology/topology.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>

namespace tapa {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// 3 nodes of 3, 1 and 2 ranks, placed unevenly; the ranks of node 0 are two tiles of one GPU and one alone.
Topology ragged() {
  Topology t;
  t.name = "ragged";
  t.ranks = 6;
  t.levels = {{"tile", {0, 1, 2, 0, 3, 4}, 5, {}, {}},
              {"node", {0, 1, 2, 0, 0, 2}, 3, {1e-6, 1e9, {}, {}, {}}, {}},
              {"world", {0, 0, 0, 0, 0, 0}, 1, {5e-6, 1e8, {}, {}, {}}, {}}};
  t.nic_level = 2;
  t.nics = {{"nic0", 0, {}, {}, {}, {}, -1},
            {"nic1", 0, {}, {}, {}, {}, -1},
            {"nic0", 1, {}, {}, {}, {}, -1},
            {"nic0", 2, {}, {}, {}, {}, -1}};
  t.rails = {{0}, {2}, {3}, {1}, {0, 1}, {3}};
  for (int r = 0; r < 6; ++r) t.devices.push_back({"core " + std::to_string(r), "", -1});
  return t;
}

TEST(Uniform, NamesFollowDepth) {
  const std::vector<std::pair<std::vector<int>, std::vector<std::string>>> cases = {
      {{4}, {"world"}},
      {{2, 3}, {"node", "world"}},
      {{2, 2, 3}, {"socket", "node", "world"}},
      {{2, 2, 3, 2}, {"tile", "socket", "node", "world"}},
      {{2, 2, 2, 2, 2}, {"tile", "socket", "node", "rack", "world"}},
      {{2, 2, 1, 2, 2, 2}, {"level0", "level1", "level2", "level3", "level4", "world"}}};
  for (const auto& [factors, names] : cases) {
    const Topology t = make_uniform_topology(factors);
    EXPECT_EQ(t.check(), "");
    EXPECT_EQ(t.ranks, std::accumulate(factors.begin(), factors.end(), 1, std::multiplies<>()));
    std::vector<std::string> found;
    for (const Level& l : t.levels) found.push_back(l.name);
    EXPECT_EQ(found, names);
  }
}

TEST(Uniform, GroupsAreConsecutive) {
  const Topology t = make_uniform_topology({2, 2, 3});
  EXPECT_EQ(t.name, "2x2x3");
  EXPECT_THAT(t.levels[0].group, ElementsAre(0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3));
  EXPECT_THAT(t.levels[1].group, ElementsAre(0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1));
  EXPECT_EQ(t.levels[2].groups, 1);
  EXPECT_EQ(t.nic_level, 2);
  EXPECT_EQ(t.nics.size(), 2u);
  EXPECT_EQ(t.nodes(), 2);
  EXPECT_THAT(t.rails[6], ElementsAre(1));
}

TEST(Uniform, WithoutNodesNothingCrossesNics) {
  const Topology t = make_uniform_topology({7});
  EXPECT_EQ(t.nic_level, 1);
  EXPECT_THAT(t.nics, IsEmpty());
  EXPECT_EQ(t.nodes(), 1);
}

TEST(Uniform, RefusesBadFactors) {
  const auto message = [](const std::vector<int>& factors) -> std::string {
    try {
      (void)make_uniform_topology(factors);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message({}), "topology has no factor, expected for example 2x2x3");
  EXPECT_EQ(message({2, 0}), "topology factor 0, expected at least 1");
  EXPECT_EQ(message({2, -3}), "topology factor -3, expected at least 1");
  EXPECT_EQ(message({1 << 10, 1 << 11}), "topology has more than 1048576 ranks");
  EXPECT_EQ(message({65536, 65536, 65536}), "topology has more than 1048576 ranks");
}

TEST(Value, LevelOfIsTheFastestCommonLevel) {
  const Topology t = ragged();
  EXPECT_EQ(t.level_of(0, 0), 0);
  EXPECT_EQ(t.level_of(0, 3), 0);
  EXPECT_EQ(t.level_of(0, 4), 1);
  EXPECT_EQ(t.level_of(4, 0), 1);
  EXPECT_EQ(t.level_of(0, 1), 2);
  for (int a = 0; a < t.ranks; ++a) {
    for (int b = 0; b < t.ranks; ++b) EXPECT_EQ(t.level_of(a, b), t.level_of(b, a));
  }
}

TEST(Value, GroupsOfListsEveryRankOnce) {
  const Topology t = ragged();
  EXPECT_THAT(t.groups_of(1), ElementsAre(ElementsAre(0, 3, 4), ElementsAre(1), ElementsAre(2, 5)));
  EXPECT_THAT(t.groups_of(2), ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5)));
  EXPECT_THROW((void)t.groups_of(3), std::out_of_range);
}

TEST(Value, NodesLieBelowTheNicLevel) {
  Topology t = ragged();
  EXPECT_EQ(t.nodes(), 3);
  EXPECT_EQ(t.node_of(5), 2);
  t.nic_level = 3;  // no NICs: the world is one node
  EXPECT_EQ(t.nodes(), 1);
  EXPECT_EQ(t.node_of(5), 0);
  t.nic_level = 0;  // every message crosses a NIC: each rank is a node
  EXPECT_EQ(t.nodes(), 6);
  EXPECT_EQ(t.node_of(5), 5);
}

TEST(Value, NumberByFirstRank) {
  std::vector<int> group = {7, 7, -2, 7, 100, -2};
  EXPECT_EQ(number_by_first_rank(group), 3);
  EXPECT_THAT(group, ElementsAre(0, 0, 1, 0, 2, 1));
  std::vector<int> none;
  EXPECT_EQ(number_by_first_rank(none), 0);
}

TEST(Check, AcceptsTheRaggedOne) {
  EXPECT_EQ(ragged().check(), "");
}

TEST(Check, NamesEachViolation) {
  struct Case {
    const char* expected;
    void (*spoil)(Topology&);
  };
  const Case cases[] = {
      {"ranks is 0, expected at least 1", [](Topology& t) { t.ranks = 0; }},
      {"there are no levels", [](Topology& t) { t.levels.clear(); }},
      {"level 1 (): has no name", [](Topology& t) { t.levels[1].name = ""; }},
      {"level 1 (node): places 5 ranks, expected 6", [](Topology& t) { t.levels[1].group.pop_back(); }},
      {"level 1 (node): groups are not numbered 0..3 by first rank",
       [](Topology& t) { t.levels[1].groups = 4; }},
      {"level 0 (tile): groups are not numbered 0..4 by first rank",
       [](Topology& t) { t.levels[0].group = {1, 0, 2, 1, 3, 4}; }},
      {"level 1 (tile): the name is used twice", [](Topology& t) { t.levels[1].name = "tile"; }},
      {"group 0 of level tile lies in groups 0 and 1 of level node",
       [](Topology& t) {
         t.levels[0] = {"tile", {0, 0, 1, 2, 3, 4}, 5, {}, {}};
       }},
      {"the slowest level (node) has 3 groups, expected 1",
       [](Topology& t) {
         t.levels.pop_back();
         t.nic_level = 2;
       }},
      {"nic_level 4 is not a level", [](Topology& t) { t.nic_level = 4; }},
      {"nic_level -1 is not a level", [](Topology& t) { t.nic_level = -1; }},
      {"NIC 3 is in node 3 of 3", [](Topology& t) { t.nics[3].node = 3; }},
      {"rails list 5 ranks, expected 6", [](Topology& t) { t.rails.pop_back(); }},
      {"rank 2 uses NIC 4 of 4",
       [](Topology& t) {
         t.rails[2] = {3, 4};
       }},
      {"rank 2 uses NIC -1 of 4", [](Topology& t) { t.rails[2] = {-1}; }},
      {"rank 2 of node 2 uses NIC 0 of node 0", [](Topology& t) { t.rails[2] = {0}; }},
      {"devices list 1 ranks, expected 6", [](Topology& t) { t.devices.resize(1); }},
  };
  for (const Case& c : cases) {
    Topology t = ragged();
    c.spoil(t);
    EXPECT_EQ(t.check(), c.expected);
  }
}

TEST(Subset, OneNodeHasNoNicLevelAndKeepsTheNodesLink) {
  const Topology t = ragged().subset({3, 0, 4});
  EXPECT_EQ(t.check(), "");
  ASSERT_EQ(t.levels.size(), 2u);
  EXPECT_EQ(t.levels[0].name, "tile");
  EXPECT_THAT(t.levels[0].group, ElementsAre(0, 0, 1));
  EXPECT_EQ(t.levels[1].name, "world");
  EXPECT_THAT(t.levels[1].also, ElementsAre("node"));
  EXPECT_EQ(t.find_level("node"), 1);
  EXPECT_EQ(t.find_level("world"), 1);
  EXPECT_EQ(t.levels[1].link.bandwidth, 1e9);
  EXPECT_EQ(t.nic_level, 2);
  ASSERT_EQ(t.nics.size(), 2u);
  EXPECT_THAT(t.rails, ElementsAre(ElementsAre(1), ElementsAre(0), ElementsAre(0, 1)));
  EXPECT_EQ(t.devices[0].name, "core 3");
}

TEST(Subset, OneRankOfEachNodeMergesTileIntoNode) {
  const Topology t = ragged().subset({5, 1, 4});
  EXPECT_EQ(t.check(), "");
  ASSERT_EQ(t.levels.size(), 2u);
  EXPECT_EQ(t.levels[0].name, "node");
  EXPECT_THAT(t.levels[0].also, ElementsAre("tile"));
  EXPECT_EQ(t.nic_level, 1);
  EXPECT_EQ(t.nodes(), 3);
  ASSERT_EQ(t.nics.size(), 4u);
  EXPECT_EQ(t.nics[0].node, 2);  // node 0 of the whole is now the third by first rank
  EXPECT_EQ(t.nics[3].node, 0);
  EXPECT_THAT(t.rails, ElementsAre(ElementsAre(3), ElementsAre(2), ElementsAre(0, 1)));
}

TEST(Subset, DropsNicsOfOtherNodes) {
  const Topology t = ragged().subset({1, 2, 5});
  EXPECT_EQ(t.check(), "");
  ASSERT_EQ(t.nics.size(), 2u);
  EXPECT_EQ(t.nics[0].node, 0);
  EXPECT_EQ(t.nics[1].node, 1);
  EXPECT_THAT(t.rails, ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(1)));
}

TEST(Subset, OfOneRankIsTheWorld) {
  const Topology t = ragged().subset({2});
  EXPECT_EQ(t.check(), "");
  EXPECT_EQ(t.levels.size(), 1u);
  EXPECT_EQ(t.find_level("tile"), 0);
  EXPECT_EQ(t.nic_level, 1);
}

TEST(Subset, OfASubsetEqualsTheDirectOne) {
  const Topology whole = make_uniform_topology({2, 3, 2, 2});
  const std::vector<int> first = {23, 4, 5, 12, 0, 1, 13, 22, 7};
  const std::vector<int> second = {8, 1, 2, 0, 7};
  std::vector<int> direct;
  for (int s : second) direct.push_back(first[static_cast<std::size_t>(s)]);
  const Topology a = whole.subset(first).subset(second);
  const Topology b = whole.subset(direct);
  EXPECT_EQ(a.check(), "");
  EXPECT_EQ(a.nic_level, b.nic_level);
  EXPECT_EQ(a.rails, b.rails);
  ASSERT_EQ(a.levels.size(), b.levels.size());
  for (std::size_t l = 0; l < a.levels.size(); ++l) {
    EXPECT_EQ(a.levels[l].name, b.levels[l].name);
    EXPECT_EQ(a.levels[l].group, b.levels[l].group);
  }
}

/// Every subset of a small ragged machine keeps the relation between its ranks.
TEST(Subset, EverySubsetIsValidAndKeepsWhoIsNear) {
  const Topology whole = ragged();
  for (unsigned mask = 1; mask < 64; ++mask) {
    std::vector<int> members;
    for (int r = 5; r >= 0; --r) {
      if ((mask >> r & 1u) != 0) members.push_back(r);
    }
    const Topology sub = whole.subset(members);
    ASSERT_EQ(sub.check(), "") << mask;
    for (int a = 0; a < sub.ranks; ++a) {
      for (int b = 0; b < sub.ranks; ++b) {
        const int wa = members[static_cast<std::size_t>(a)];
        const int wb = members[static_cast<std::size_t>(b)];
        for (const char* name : {"tile", "node", "world"}) {
          const auto l = static_cast<std::size_t>(whole.find_level(name));
          const auto s = static_cast<std::size_t>(sub.find_level(name));
          const bool together = whole.levels[l].group[static_cast<std::size_t>(wa)] ==
                                whole.levels[l].group[static_cast<std::size_t>(wb)];
          EXPECT_EQ(together, sub.levels[s].group[static_cast<std::size_t>(a)] ==
                                  sub.levels[s].group[static_cast<std::size_t>(b)]);
        }
        if (a != b) {
          EXPECT_EQ(whole.level_of(wa, wb) >= whole.nic_level, sub.level_of(a, b) >= sub.nic_level);
        }
      }
    }
  }
}

TEST(Subset, RefusesBadMembers) {
  const auto message = [](const std::vector<int>& members) -> std::string {
    try {
      (void)ragged().subset(members);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message({}), "subset has no member, expected at least 1");
  EXPECT_EQ(message({0, 6}), "subset member 6, expected a rank from 0 to 5");
  EXPECT_EQ(message({-1}), "subset member -1, expected a rank from 0 to 5");
  EXPECT_EQ(message({2, 3, 2}), "subset member 2 is listed twice");
}

}  // namespace
}  // namespace tapa
