// The checks for any plugin, on threads.
#include <gtest/gtest.h>

#include "checks.hpp"
#include "exchange/local/local_ranks.hpp"

namespace dit {
namespace {

class LocalConformance : public testing::TestWithParam<LocalGroupOptions> {};

TEST_P(LocalConformance, AllChecks) {
  run_local_ranks(GetParam(), [](ExchangeContext& context) {
    for (const conformance::Check& check : conformance::all_checks()) {
      const conformance::Result result = run_check(check, context);
      if (context.rank() == 0) {
        EXPECT_EQ(result.problem, "") << result.name;
      }
    }
  });
}

// Ranks, ranks of a node, rate of a node's NIC, time limit of a wait.
INSTANTIATE_TEST_SUITE_P(Groups, LocalConformance,
                         testing::Values(LocalGroupOptions{1, 0, 0, 30}, LocalGroupOptions{2, 0, 0, 30},
                                         LocalGroupOptions{2, 1, 1e9, 30}, LocalGroupOptions{3, 2, 0, 30},
                                         LocalGroupOptions{5, 2, 0, 30}, LocalGroupOptions{8, 4, 1e9, 30}),
                         [](const auto& info) {
                           return std::to_string(info.param.ranks) + "_ranks_" +
                                  std::to_string(info.param.ranks_per_node) + "_per_node" +
                                  (info.param.bytes_per_second > 0 ? "_with_nics" : "");
                         });

}  // namespace
}  // namespace dit
