#include "run/scratch.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace tapa {
namespace {

TEST(Scratch, IsUsedAgainForCallsThatNeedAboutAsMuch) {
  std::byte* first = nullptr;
  {
    const Scratch scratch(100'000);
    first = scratch.data();
  }
  EXPECT_EQ(Scratch(100'000).data(), first);
  EXPECT_EQ(Scratch(30'000).data(), first);
  EXPECT_NE(Scratch(10'000).data(), first);  // would hold too much for it
  EXPECT_EQ(Scratch(90'000).data(), first);
}

TEST(Scratch, TwoAtOnceAreApart) {
  const Scratch one(5000);
  const Scratch other(5000);
  EXPECT_NE(one.data(), other.data());
}

TEST(Scratch, KeepsABoundedAmount) {
  {
    std::vector<Scratch> many;
    for (int i = 0; i < 50; ++i) many.emplace_back(std::size_t{3} << 20);
    many.emplace_back((std::size_t{32} << 20) + 1);
  }
  EXPECT_GT(Scratch::kept(), 0U);
  EXPECT_LE(Scratch::kept(), std::size_t{32} << 20);
  Scratch::keep_at_most(std::size_t{8} << 20);
  EXPECT_EQ(Scratch::kept(), std::size_t{6} << 20);
  Scratch::keep_at_most(0);
  EXPECT_EQ(Scratch::kept(), 0U);
  static_cast<void>(Scratch(1));
  EXPECT_EQ(Scratch::kept(), 0U);
  Scratch::keep_at_most(std::size_t{32} << 20);
}

TEST(Scratch, MovesWithoutGivingItsMemoryBack) {
  Scratch one(7'000'000);
  std::byte* const memory = one.data();
  Scratch other;
  EXPECT_FALSE(other);
  other = std::move(one);
  EXPECT_EQ(other.data(), memory);
  const Scratch third(7'000'000);
  EXPECT_NE(third.data(), memory);
}

}  // namespace
}  // namespace tapa
