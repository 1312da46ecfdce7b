#include "joint_failure.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace dit::tool {
namespace {

const Verdict good{0, "", false, false};
const Verdict bad_words{exit_argument, "--steps is 0", false, false};
const Verdict no_model{exit_failed, "m: not a folder", false, false};
const Verdict waited{exit_failed, "waited too long", false, true};

struct Said {
  int status = 0;
  std::string line;
  bool operator==(const Said&) const = default;
};
void PrintTo(const Said& said, std::ostream* out) {
  *out << said.status << " " << said.line;
}

Said joint(const std::vector<Verdict>& ranks) {
  const auto failure = joint_failure(ranks);
  return failure ? Said{failure->status(), failure->what()} : Said{};
}

TEST(JointFailure, GoodRanksHaveNone) {
  EXPECT_EQ(joint({good, good}), Said());
}

TEST(JointFailure, EverybodysHasNoNumber) {
  EXPECT_EQ(joint({bad_words, bad_words, bad_words}), (Said{2, "--steps is 0"}));
  EXPECT_EQ(joint({no_model}), (Said{1, "m: not a folder"}));
}

TEST(JointFailure, OneRanksHasItsNumber) {
  EXPECT_EQ(joint({good, no_model, good}), (Said{1, "rank 1: m: not a folder"}));
  EXPECT_EQ(joint({no_model, good}), (Said{1, "rank 0: m: not a folder"}));
}

TEST(JointFailure, SeveralRanksAreCounted) {
  EXPECT_EQ(joint({good, no_model, no_model}),
            (Said{1, "rank 1: m: not a folder (1 other rank failed too)"}));
  EXPECT_EQ(joint({good, no_model, bad_words, bad_words}),
            (Said{1, "rank 1: m: not a folder (2 other ranks failed too)"}));
}

TEST(JointFailure, WhatFollowsIsNoCause) {
  EXPECT_EQ(joint({waited, no_model, waited}), (Said{1, "rank 1: m: not a folder"}));
  EXPECT_EQ(joint({waited, good, waited}), (Said{1, "rank 0: waited too long (1 other rank failed too)"}));
  EXPECT_EQ(joint({waited, waited}), (Said{1, "waited too long"}));
}

}  // namespace
}  // namespace dit::tool
