#include "engine/guidance.hpp"

#include <gtest/gtest.h>

#include "../message_of.hpp"
#include "exchange/local/local_ranks.hpp"

namespace dit {
namespace {

using Labels = std::vector<std::vector<std::int64_t>>;

TEST(Guidance, NamesComeBack) {
  for (const GuidanceMode mode : {GuidanceMode::batched, GuidanceMode::sequential, GuidanceMode::parallel}) {
    EXPECT_EQ(parse_guidance_mode(to_string(mode)), mode);
  }
  EXPECT_EQ(misuse_of([] { static_cast<void>(parse_guidance_mode("both")); }),
            "guidance mode = both: expected batched, sequential or parallel");
}

TEST(Guidance, BranchesOfEachMode) {
  EXPECT_EQ(plan_branches(GuidanceMode::batched, true, 3, 12, 0, 4).unit_labels, (Labels{{3, 12}}));
  EXPECT_EQ(plan_branches(GuidanceMode::sequential, true, 3, 12, 0, 4).unit_labels, (Labels{{3}, {12}}));
  EXPECT_EQ(plan_branches(GuidanceMode::sequential, false, 3, 12, 0, 4).unit_labels, (Labels{{3}}));
  const BranchPlan first = plan_branches(GuidanceMode::parallel, true, 3, 12, 1, 4);
  EXPECT_EQ(first.unit_labels, (Labels{{3}}));
  EXPECT_EQ(first.partner, 3);
  const BranchPlan second = plan_branches(GuidanceMode::parallel, true, 3, 12, 3, 4);
  EXPECT_EQ(second.unit_labels, (Labels{{12}}));
  EXPECT_EQ(second.partner, 1);
  EXPECT_FALSE(second.conditional);
}

TEST(Guidance, PipelinedWantsTwoUnits) {
  EXPECT_EQ(default_guidance_mode(Schedule::pipelined), GuidanceMode::sequential);
  EXPECT_EQ(default_guidance_mode(Schedule::v_first), GuidanceMode::batched);
}

TEST(Guidance, PartnersSwap) {
  LocalGroupOptions group;
  group.ranks = 4;
  run_local_ranks(group, [](ExchangeContext& context) {
    const int partner = (context.rank() + 2) % 4;
    const at::Tensor received = exchange_with_partner(context, partner, at::full({3}, context.rank()));
    EXPECT_TRUE(at::equal(received, at::full({3}, partner)));
  });
}

}  // namespace
}  // namespace dit
