// Ranks of a host that do not all reach each other: its memory is a level of its own, on which policies
// apply.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "checks.hpp"
#include "memory_group.hpp"
#include "wire/wire_policy.hpp"

namespace dit {
namespace {

using Names = std::vector<std::string>;

/// Ranks by node, and in it by whom they reach.
struct Host {
  std::vector<const char*> nodes, reach;
  Names levels;
  std::vector<std::vector<int>> level_of;  ///< of each rank each peer
};

void settle(MemoryGroup& ranks, const Host& host) {
  for (int rank = 0; rank < ranks.size(); ++rank) {
    ranks.at(rank).node = host.nodes[static_cast<std::size_t>(rank)];
    ranks.at(rank).reach = host.reach[static_cast<std::size_t>(rank)];
  }
}

void expect_levels(const Host& host) {
  MemoryGroup ranks(static_cast<int>(host.nodes.size()));
  settle(ranks, host);
  run_memory_ranks(ranks, [&](ExchangeContext& context) {
    EXPECT_EQ(context.levels(), host.levels);
    EXPECT_EQ(context.slow_level(), 1);
    EXPECT_TRUE(context.leaves_node());
    for (int peer = 0; peer < context.size(); ++peer)
      EXPECT_EQ(context.level_of(peer),
                host.level_of[static_cast<std::size_t>(context.rank())][static_cast<std::size_t>(peer)])
          << context.rank() << " " << peer;
  });
}

TEST(BootstrapReach, CardsThatRefuseEachOther) {
  expect_levels({{"one", "one"}, {"a", "b"}, {"gpu", "host"}, {{0, 1}, {1, 0}}});
}

TEST(BootstrapReach, PairsWithBridges) {
  expect_levels({{"one", "one", "one", "one"},
                 {"a", "b", "a", "b"},
                 {"gpu", "host"},
                 {{0, 1, 0, 1}, {1, 0, 1, 0}, {0, 1, 0, 1}, {1, 0, 1, 0}}});
}

TEST(BootstrapReach, SeveralHosts) {  // groups of one name on two hosts are two
  expect_levels({{"one", "one", "two", "two"},
                 {"a", "b", "a", "a"},
                 {"gpu", "host", "world"},
                 {{0, 1, 2, 2}, {1, 0, 2, 2}, {2, 2, 0, 0}, {2, 2, 0, 0}}});
}

TEST(BootstrapReach, WhereAllReachEachOtherLevelsAreThoseOfNodes) {
  for (const char* const reach : {static_cast<const char*>(nullptr), "a"}) {
    expect_levels(
        {{"one", "one", "two"}, {reach, reach, reach}, {"node", "world"}, {{0, 0, 1}, {0, 0, 1}, {1, 1, 0}}});
  }
  MemoryGroup ranks(2);
  run_memory_ranks(ranks, [](ExchangeContext& context) { EXPECT_FALSE(context.leaves_node()); });
}

TEST(BootstrapReach, AllChecks) {
  MemoryGroup ranks(4);
  settle(ranks, {{"one", "one", "one", "two"}, {"a", "b", "a", "a"}, {}, {}});
  run_memory_ranks(ranks, [](ExchangeContext& context) {
    for (const conformance::Check& check : conformance::all_checks()) {
      const conformance::Result result = run_check(check, context);
      if (context.rank() == 0) {
        EXPECT_EQ(result.problem, "") << result.name;
      }
    }
  });
}

TEST(BootstrapReach, APartKeepsItsReach) {
  MemoryGroup ranks(3);
  settle(ranks, {{"one", "one", "one"}, {"a", "b", "a"}, {}, {}});
  run_memory_ranks(ranks, [](ExchangeContext& context) {
    const auto part = context.split(context.rank() == 2 ? 1 : 0, context.rank());
    EXPECT_EQ(part->levels(), context.rank() == 2 ? (Names{"node", "world"}) : (Names{"gpu", "host"}));
  });
}

// The same on links through memory of the host as on those between nodes, and nothing between ranks that
// reach each other.
TEST(BootstrapReach, PresetsCodeWhatIsOutOfReach) {
  constexpr int kSteps = 20;
  constexpr AttentionTensor kTensors[] = {AttentionTensor::query, AttentionTensor::key,
                                          AttentionTensor::value, AttentionTensor::output};
  const WirePlan::Shape host{3, kSteps, {"gpu", "host"}, 1}, nodes{3, kSteps, {"node", "world"}, 1};
  for (const std::string& name : wire_preset_names()) {
    const WirePlan here(wire_preset(name, kSteps), host), there(wire_preset(name, kSteps), nodes);
    for (const AttentionTensor tensor : kTensors)
      for (int layer = 0; layer < 3; ++layer) {
        EXPECT_FALSE(here.touches(tensor, 0, layer)) << name;
        EXPECT_EQ(here.touches(tensor, 1, layer), there.touches(tensor, 1, layer)) << name;
        for (int step = 0; step < kSteps; ++step)
          EXPECT_EQ(here.mode(tensor, 1, layer, step, 0), there.mode(tensor, 1, layer, step, 0))
              << name << step;
      }
  }
}

TEST(BootstrapReach, RulesForNodesMeanLinksThroughTheHostToo) {
  WirePolicy policy = wire_preset("bf16", 4);
  for (WireRule& rule : policy.rules) rule.level = "node";
  const WirePlan plan(policy, {1, 4, {"gpu", "host", "world"}, 1});
  EXPECT_FALSE(plan.touches(AttentionTensor::query, 0, 0));
  EXPECT_TRUE(plan.touches(AttentionTensor::query, 1, 0));
  for (WireRule& rule : policy.rules) rule.level = "host";
  EXPECT_THROW(WirePlan(policy, {1, 4, {"node", "world"}, 1}), std::invalid_argument);
}

}  // namespace
}  // namespace dit
