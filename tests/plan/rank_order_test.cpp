#include "plan/rank_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <random>

namespace tapa {
namespace {

/// Calls `look` with every way of putting 1 to `most` ranks on nodes, numbered by their first ranks.
void for_all_placements(std::size_t most, const std::function<void(const std::vector<int>&)>& look) {
  std::vector<int> node;
  const std::function<void(int)> extend = [&](int nodes) {
    if (!node.empty()) look(node);
    if (node.size() == most) return;
    for (int n = 0; n <= nodes; ++n) {
      node.push_back(n);
      extend(std::max(nodes, n + 1));
      node.pop_back();
    }
  };
  extend(0);
}

int nodes_of(const std::vector<int>& node) {
  return *std::ranges::max_element(node) + 1;
}

std::vector<int> ranks_on_each(std::span<const int> node, int nodes) {
  std::vector<int> result(static_cast<std::size_t>(nodes));
  for (const int n : node) ++result[static_cast<std::size_t>(n)];
  return result;
}

TEST(RankOrder, EveryOrderPutsAsManyRanksOnEachNode) {
  for_all_placements(8, [](const std::vector<int>& given) {
    const int nodes = nodes_of(given);
    const std::vector<int> room = ranks_on_each(given, nodes);
    const auto consecutive = nodes_in_order(RankOrder::consecutive, given);
    const auto alternating = nodes_in_order(RankOrder::alternating, given);
    EXPECT_EQ(nodes_in_order(RankOrder::given, given), given);
    EXPECT_TRUE(std::ranges::is_sorted(consecutive));
    EXPECT_EQ(ranks_on_each(consecutive, nodes), room);
    EXPECT_EQ(ranks_on_each(alternating, nodes), room);
    // At no time has a node that is not full two ranks less than another, or one less than a later one.
    for (std::size_t ranks = 1; ranks <= alternating.size(); ++ranks) {
      const auto used = ranks_on_each(std::span(alternating).first(ranks), nodes);
      for (std::size_t n = 0; n < used.size(); ++n) {
        for (std::size_t other = 0; other < used.size() && used[n] < room[n]; ++other)
          EXPECT_LE(used[other], used[n] + (other < n ? 1 : 0));
      }
    }
  });
}

TEST(RankOrder, BytesBetweenNodesAreCountedAtBothEnds) {
  std::mt19937 random(3);
  std::uniform_int_distribution<int> bytes(0, 9);
  for_all_placements(6, [&](const std::vector<int>& node) {
    const auto nodes = static_cast<std::size_t>(nodes_of(node));
    std::vector<std::vector<double>> sent(node.size(), std::vector<double>(node.size()));
    std::vector<double> out(nodes), in(nodes), leaves(nodes), enters(nodes);
    for (std::size_t from = 0; from < node.size(); ++from) {
      for (std::size_t to = 0; to < node.size(); ++to) {
        sent[from][to] = bytes(random);
        leaves[static_cast<std::size_t>(node[from])] += node[from] != node[to] ? sent[from][to] : 0;
        enters[static_cast<std::size_t>(node[to])] += node[from] != node[to] ? sent[from][to] : 0;
      }
      add_node_bytes(node, static_cast<int>(from), sent[from], out, in);
    }
    EXPECT_EQ(out, leaves);
    EXPECT_EQ(in, enters);
  });
}

/// What the NICs carry in each order when each rank sends so many bytes to both neighbours in a row.
std::array<NicLoad, kRankOrders> loads_of_row(const Topology& topology, double rate, double bytes) {
  const auto ranks = static_cast<std::size_t>(topology.ranks);
  std::vector<int> given;
  for (int r = 0; r < topology.ranks; ++r) given.push_back(topology.node_of(r));
  std::array<NicLoad, kRankOrders> loads;
  for (std::size_t order = 0; order < kRankOrders; ++order) {
    const auto node = nodes_in_order(static_cast<RankOrder>(order), given);
    std::vector<double> out(static_cast<std::size_t>(topology.nodes())), in(out);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      std::vector<double> sent(ranks);
      if (rank > 0) sent[rank - 1] = bytes;
      if (rank + 1 < ranks) sent[rank + 1] = bytes;
      add_node_bytes(node, static_cast<int>(rank), sent, out, in);
    }
    loads[order] = busiest(topology, rate, out, in);
  }
  return loads;
}

/// Ranks on nodes in turn.
Topology cyclic(int nodes, int ranks_of_node) {
  Topology topology = make_uniform_topology({nodes, ranks_of_node});
  for (int r = 0; r < topology.ranks; ++r) topology.levels[0].group[static_cast<std::size_t>(r)] = r % nodes;
  return topology;
}

TEST(RankOrder, ARowOfNeighboursWantsConsecutiveRanks) {
  const auto loads = loads_of_row(cyclic(4, 8), 1e6, 1000);
  // Each rank of a node sends two blocks away; now only those at the two ends do.
  EXPECT_DOUBLE_EQ(loads[0].bytes, 8 * 2 * 1000);
  EXPECT_DOUBLE_EQ(loads[0].seconds, 0.016);
  EXPECT_DOUBLE_EQ(loads[1].bytes, 2 * 1000);
  EXPECT_DOUBLE_EQ(loads[2].bytes, loads[0].bytes);
  const auto advice = advise(loads, 1);
  ASSERT_TRUE(advice);
  EXPECT_EQ(advice->order, RankOrder::consecutive);
  EXPECT_DOUBLE_EQ(advice->now.bytes, 16000);
  EXPECT_DOUBLE_EQ(advice->then.bytes, 2000);
  EXPECT_DOUBLE_EQ(advice->then.seconds, 0.002);
  EXPECT_FALSE(advise(loads, 2)) << "less than a hundredth of the time";
  EXPECT_FALSE(advise(loads_of_row(cyclic(4, 8), 0, 1000), 1)) << "NICs that may be fast";
  EXPECT_FALSE(advise(loads_of_row(make_uniform_topology({4, 8}), 1e6, 1e6), 1)) << "the best order";
}

TEST(RankOrder, EqualBlocksBetweenAllRanksHaveNoBetterOrder) {
  for_all_placements(6, [](const std::vector<int>& given) {
    const auto nodes = static_cast<std::size_t>(nodes_of(given));
    const std::vector<double> sent(given.size(), 1e9);
    std::array<NicLoad, kRankOrders> loads;
    for (std::size_t order = 0; order < kRankOrders; ++order) {
      const auto node = nodes_in_order(static_cast<RankOrder>(order), given);
      std::vector<double> out(nodes), in(nodes);
      for (std::size_t r = 0; r < given.size(); ++r) add_node_bytes(node, static_cast<int>(r), sent, out, in);
      loads[order] = busiest({}, 1e6, out, in);
    }
    EXPECT_FALSE(advise(loads, 0));
  });
}

TEST(RankOrder, ANodeWithMoreOrFasterNicsIsLessBusy) {
  Topology topology = make_uniform_topology({3, 1});
  topology.nics = {{"a", 0, 1e6, {}, "", ""}, {"b", 0, 2e6, {}, "", ""}, {"c", 1, {}, {}, "", ""}};
  const std::vector<double> none(3);
  const auto alone = [&](std::size_t node, bool in) {
    std::vector<double> bytes(3);
    bytes[node] = 6e6;
    return busiest(topology, 0.5e6, in ? none : bytes, in ? bytes : none).seconds;
  };
  for (const bool in : {false, true}) {
    EXPECT_DOUBLE_EQ(alone(0, in), 2);
    EXPECT_DOUBLE_EQ(alone(1, in), 12);
    EXPECT_DOUBLE_EQ(alone(2, in), 12) << "without a NIC that is known";
  }
}

TEST(RankOrder, LaunchersAreToldHowManyRanksANodeHas) {
  EXPECT_EQ(ranks_per_node(std::array{0, 1, 1, 0, 2, 2}), 2);
  EXPECT_EQ(ranks_per_node(std::array{0, 1, 1}), 0);
  EXPECT_EQ(ranks_per_node({}), 0);
  const LaunchOptions even = launch_options({RankOrder::consecutive, {}, {}, 8});
  EXPECT_EQ(even.open_mpi, "--map-by ppr:8:node");
  EXPECT_EQ(even.mpich, "-ppn 8");
  EXPECT_EQ(even.slurm, "--ntasks-per-node=8 --distribution=block");
  EXPECT_EQ(launch_options({RankOrder::consecutive, {}, {}, 0}).mpich, "") << "no option says that";
  EXPECT_EQ(launch_options({RankOrder::alternating, {}, {}, 8}).mpich, "-ppn 1");
}

TEST(RankOrder, AdviceIsTheBestOrderAndSavesAFifth) {
  const std::vector<double> values{0, 1, 7.9, 8.1, 10};
  for (const double given : values) {
    for (const double first : values) {
      for (const double second : values) {
        const auto advice =
            advise(std::array<NicLoad, 3>{{{given, given}, {first, first}, {second, second}}}, 10);
        const double best = std::min(first, second);
        ASSERT_EQ(advice.has_value(), best <= 0.8 * given && given - best >= 0.1) << given << first << second;
        if (!advice) continue;
        EXPECT_EQ(advice->order, first <= second ? RankOrder::consecutive : RankOrder::alternating);
        EXPECT_EQ(advice->then.seconds, best);
      }
    }
  }
}

}  // namespace
}  // namespace tapa
