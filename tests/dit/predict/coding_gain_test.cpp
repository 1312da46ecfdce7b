#include "predict/coding_gain.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "policies.hpp"

namespace dit {
namespace {

using test::kSlow;
using test::policy;
using test::rule;

TEST(CodingGain, SharesOfModesAndBytes) {
  const WirePlan plan(policy({rule("bf16"), rule("skip", {25, -1}), rule("full", {}, {0, 2})}),
                      test::run_shape());
  const std::vector<ModeShare> modes = modes_of_level(plan, kSlow);
  double sum = 0;
  for (const ModeShare& mode : modes) {
    sum += mode.share;
    const bool is_third = mode.mode.skip || mode.mode.format == WireFormat::bf16;
    EXPECT_TRUE(!is_third || std::abs(mode.share - 1.0 / 3) < 1e-9) << mode.share;
  }
  EXPECT_EQ(modes.size(), 3U);
  EXPECT_NEAR(sum, 1, 1e-9);
  EXPECT_NEAR(bytes_share(modes, WireElement::fp32), 0.5 / 3 + 1.0 / 3, 1e-9);
  EXPECT_NEAR(bytes_share(modes, WireElement::bf16), 2.0 / 3, 1e-9);
  EXPECT_NEAR(bytes_share(modes_of_level(plan, 0), WireElement::fp32), 1, 1e-9);  // within a node
}

TEST(CodingGain, PaysWhereItSavesMoreThanItTakes) {
  CodingGain gain{0.25, 4, 3};
  EXPECT_TRUE(gain.pays());  // 3 saved
  gain.codec_seconds = 3.01;
  EXPECT_FALSE(gain.pays());
  EXPECT_NEAR(gain.break_even(), 0.75 / 3.01, 1e-9);
  gain = {0.25, 1 / gain.break_even() * 1.01, gain.codec_seconds};
  EXPECT_TRUE(gain.pays());
  EXPECT_FALSE((CodingGain{1, 4, 1e-9}).pays());  // nothing saved
  EXPECT_TRUE((CodingGain{1, 4, 0}).pays());      // nothing coded
  EXPECT_EQ((CodingGain{1.5, 4, 1}).break_even(), 0);
}

}  // namespace
}  // namespace dit
