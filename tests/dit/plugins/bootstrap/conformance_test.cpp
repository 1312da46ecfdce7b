// The checks for any plugin, on threads that meet in memory; and many channels at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "checks.hpp"
#include "known_exchange.hpp"
#include "memory_group.hpp"

namespace dit {
namespace {

struct Group {
  int ranks;
  bool alltoallv;
  int ranks_per_node;
  double timeout_seconds;
};

void settle(MemoryGroup& ranks, const Group& group) {
  ranks.alltoallv = group.alltoallv;
  for (int rank = 0; rank < group.ranks; ++rank)
    ranks.at(rank).node = "node " + std::to_string(rank / group.ranks_per_node);
}

class BootstrapConformance : public testing::TestWithParam<Group> {};

TEST_P(BootstrapConformance, AllChecks) {
  const Group& group = GetParam();
  MemoryGroup ranks(group.ranks);
  settle(ranks, group);
  run_memory_ranks(ranks,
                   [](ExchangeContext& context) {
                     for (const conformance::Check& check : conformance::all_checks()) {
                       const conformance::Result result = run_check(check, context);
                       if (context.rank() == 0) {
                         EXPECT_EQ(result.problem, "") << result.name;
                       }
                     }
                   },
                   {group.timeout_seconds, ""});
  for (int rank = 0; rank < group.ranks; ++rank) EXPECT_EQ(ranks.at(rank).released, 1);
}

TEST_P(BootstrapConformance, Levels) {
  const Group& group = GetParam();
  MemoryGroup ranks(group.ranks);
  settle(ranks, group);
  run_memory_ranks(ranks, [&](ExchangeContext& context) {
    EXPECT_EQ(context.levels(), (std::vector<std::string>{"node", "world"}));
    EXPECT_EQ(context.slow_level(), group.ranks > group.ranks_per_node ? 1 : 2);
    for (int peer = 0; peer < group.ranks; ++peer)
      EXPECT_EQ(context.level_of(peer),
                peer / group.ranks_per_node == context.rank() / group.ranks_per_node ? 0 : 1);
  });
}

// More channels than fit into a round's first message, started by each rank in an order of its own.
TEST_P(BootstrapConformance, ManyChannelsInAnyOrder) {
  constexpr std::size_t kChannels = 11;
  MemoryGroup ranks(GetParam().ranks);
  settle(ranks, GetParam());
  run_memory_ranks(ranks, [&](ExchangeContext& context) {
    std::mt19937 random(static_cast<unsigned>(context.rank()) + 1);
    std::vector<int> channels{0};
    while (channels.size() < kChannels) channels.push_back(context.open_channel());
    for (std::uint64_t round = 0; round < 4; ++round) {
      std::vector<std::unique_ptr<conformance::KnownExchange>> exchanges(kChannels);
      std::vector<ExchangeRequest> requests;
      std::vector<std::size_t> order(kChannels);
      for (std::size_t i = 0; i < kChannels; ++i) order[i] = i;
      std::shuffle(order.begin(), order.end(), random);
      for (const std::size_t i : order) {
        const std::uint64_t seed = round * kChannels + i;
        const auto rows = [seed](int from, int to) {
          const std::uint64_t bits =
              conformance::mix(seed, static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(to));
          return static_cast<std::size_t>(bits % 4 == 0 ? 0 : bits % 700);
        };
        exchanges[i] = std::make_unique<conformance::KnownExchange>(context, conformance::Shape{rows}, seed);
        exchanges[i]->call().channel = channels[i];
        requests.push_back(context.start(exchanges[i]->call()));
      }
      for (ExchangeRequest& request : requests) request.wait();
      for (const auto& exchange : exchanges) EXPECT_EQ(exchange->problem(), "");
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Groups, BootstrapConformance,
                         testing::Values(Group{1, true, 1, 30}, Group{2, true, 2, 30}, Group{2, false, 1, 0},
                                         Group{3, true, 2, 30}, Group{5, false, 2, 30}, Group{5, true, 5, 0}),
                         [](const auto& info) {
                           return std::to_string(info.param.ranks) + "_ranks_" +
                                  std::to_string(info.param.ranks_per_node) + "_per_node_" +
                                  (info.param.alltoallv ? "alltoallv" : "allgather") +
                                  (info.param.timeout_seconds > 0 ? "" : "_no_limit");
                         });

}  // namespace
}  // namespace dit
