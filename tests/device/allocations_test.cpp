// Whether registered addresses still have the memory that was registered.
#include "device/allocations.hpp"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <optional>
#include <vector>

namespace tapa::device {
namespace {

/// A driver with allocations at 100 to 300, 300 to 310 and 310 to 400, whose numbers a test changes.
struct Driver {
  std::map<std::uint64_t, std::optional<std::uint64_t>> ids{{100, 1}, {300, 2}, {310, 3}};
  int asked = 0;

  std::optional<std::uint64_t> operator()(std::uint64_t address) {
    ++asked;
    return std::prev(ids.upper_bound(address))->second;
  }
};

class AllocationsTest : public testing::Test {
 protected:
  Driver driver_;
  Allocations::Asked asked_;
  [[nodiscard]] Allocations registered() { return {{{100, 200}, {300, 10}, {310, 90}}, std::ref(driver_)}; }
  [[nodiscard]] bool hold(const Allocations& allocations, std::uint64_t begin, std::uint64_t bytes) {
    Allocations::Asked nothing;
    return allocations.hold(begin, bytes, std::ref(driver_), nothing);
  }
};

TEST_F(AllocationsTest, TheSameOnesHold) {
  const Allocations allocations = registered();
  EXPECT_TRUE(hold(allocations, 100, 300));
  EXPECT_TRUE(hold(allocations, 399, 1));
}

TEST_F(AllocationsTest, AnotherOneAtTheAddressesOfABlockDoesNot) {
  const Allocations allocations = registered();
  driver_.ids[300] = 7;
  EXPECT_FALSE(hold(allocations, 100, 300));
  EXPECT_FALSE(hold(allocations, 309, 1));
  EXPECT_FALSE(hold(allocations, 299, 2));
  EXPECT_FALSE(hold(allocations, 300, 100));
  EXPECT_TRUE(hold(allocations, 100, 200));  // blocks beside it are where they were
  EXPECT_TRUE(hold(allocations, 310, 90));
}

TEST_F(AllocationsTest, NoneAtAllDoesNot) {
  const Allocations allocations = registered();
  driver_.ids[310] = 0;
  EXPECT_FALSE(hold(allocations, 320, 8));
}

TEST_F(AllocationsTest, ABlockWithoutBytesHolds) {
  const Allocations allocations = registered();
  driver_.ids[100] = 7;
  EXPECT_TRUE(hold(allocations, 150, 0));
}

TEST_F(AllocationsTest, WhatCannotBeToldHolds) {
  driver_.ids[300] = 0;
  driver_.ids[310] = std::nullopt;
  const Allocations allocations = registered();
  driver_.ids = {{100, std::nullopt}, {300, 8}, {310, 9}};
  EXPECT_TRUE(hold(allocations, 100, 300));
  EXPECT_TRUE(hold(Allocations(), 100, 300));
}

TEST_F(AllocationsTest, BlocksOfACallInOneAllocationAskOnce) {
  const Allocations allocations = registered();
  driver_.asked = 0;
  EXPECT_TRUE(allocations.hold(100, 50, std::ref(driver_), asked_));
  EXPECT_TRUE(allocations.hold(150, 50, std::ref(driver_), asked_));
  EXPECT_EQ(driver_.asked, 1);
  EXPECT_TRUE(allocations.hold(290, 20, std::ref(driver_), asked_));
  EXPECT_EQ(driver_.asked, 2);
  // Blocks beside each other in each of several rows lie in the same ones.
  EXPECT_TRUE(allocations.hold(110, 290, std::ref(driver_), asked_));
  EXPECT_TRUE(allocations.hold(100, 290, std::ref(driver_), asked_));
  EXPECT_EQ(driver_.asked, 3);
}

TEST_F(AllocationsTest, EachRegistrationAsksForItself) {
  const Allocations before = registered();
  driver_.ids[100] = 7;
  const Allocations since = registered();
  EXPECT_FALSE(before.hold(100, 50, std::ref(driver_), asked_));
  EXPECT_TRUE(since.hold(100, 50, std::ref(driver_), asked_));
  EXPECT_FALSE(before.hold(150, 50, std::ref(driver_), asked_));
  EXPECT_TRUE(since.hold(150, 50, std::ref(driver_), asked_));
}

/// Every two blocks of a call, each in one of two registrations of the same addresses, an old one and one
/// that was made since some of the allocations were replaced.
TEST_F(AllocationsTest, EveryTwoBlocks) {
  constexpr std::array<std::uint64_t, 6> kEdges{100, 200, 300, 305, 310, 400};
  constexpr std::array<std::uint64_t, 3> kBegins{100, 300, 310};
  constexpr std::array<std::uint64_t, 3> kEnds{300, 310, 400};
  struct Block {
    std::uint64_t begin, end;
    bool old;
  };
  std::vector<Block> blocks;
  for (const std::uint64_t begin : kEdges) {
    for (const std::uint64_t end : kEdges) {
      if (begin <= end) blocks.insert(blocks.end(), {{begin, end, false}, {begin, end, true}});
    }
  }
  for (unsigned replaced = 0; replaced < 8; ++replaced) {
    driver_ = {};
    const Allocations old = registered();
    for (unsigned part = 0; part < 3; ++part) {
      if ((replaced >> part & 1U) != 0) driver_.ids[kBegins[part]] = 10 + part;
    }
    const Allocations since = registered();
    const auto expected = [&](const Block& block) {
      for (unsigned part = 0; part < 3; ++part) {
        const bool in_it = block.begin < block.end && block.begin < kEnds[part] && block.end > kBegins[part];
        if (block.old && in_it && (replaced >> part & 1U) != 0) return false;
      }
      return true;
    };
    for (const Block& first : blocks) {
      for (const Block& second : blocks) {
        Allocations::Asked asked;
        for (const Block& block : {first, second}) {
          const Allocations& allocations = block.old ? old : since;
          ASSERT_EQ(allocations.hold(block.begin, block.end - block.begin, std::ref(driver_), asked),
                    expected(block))
              << replaced << ": " << first.begin << "-" << first.end << (first.old ? " of the old one" : "")
              << ", " << second.begin << "-" << second.end << (second.old ? " of the old one" : "");
        }
      }
    }
  }
}

}  // namespace
}  // namespace tapa::device
