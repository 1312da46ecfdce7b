// Whether registered addresses still have the memory that was registered.
#include "device/allocations.hpp"

#include <gtest/gtest.h>

#include <map>
#include <optional>

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
  std::uint64_t asked_ = 0;
  [[nodiscard]] Allocations registered() { return {{{100, 200}, {300, 10}, {310, 90}}, std::ref(driver_)}; }
  [[nodiscard]] bool hold(const Allocations& allocations, std::uint64_t begin, std::uint64_t bytes) {
    std::uint64_t none = 0;
    return allocations.hold(begin, bytes, std::ref(driver_), none);
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
}

}  // namespace
}  // namespace tapa::device
