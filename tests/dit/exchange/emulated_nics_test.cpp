#include "exchange/local/emulated_nics.hpp"

#include <gtest/gtest.h>

namespace dit {
namespace {

using namespace std::chrono_literals;

const EmulatedNics::Clock::time_point start{};

TEST(EmulatedNics, WithoutARateOrWithinANodeMessagesTakeNoTime) {
  EmulatedNics unlimited(2, 0);
  EXPECT_EQ(unlimited.send(0, 1, 1000, start), start);
  EmulatedNics limited(2, 1000);
  EXPECT_EQ(limited.send(1, 1, 1000, start), start);
  EXPECT_EQ(limited.send(0, 1, 0, start), start);
}

TEST(EmulatedNics, MessagesOfOneNicQueue) {
  EmulatedNics nics(3, 1000);
  EXPECT_EQ(nics.send(0, 1, 1000, start), start + 1s);
  EXPECT_EQ(nics.send(0, 2, 500, start), start + 1500ms);  // egress of 0
  EXPECT_EQ(nics.send(2, 1, 1000, start), start + 2s);     // ingress of 1
  EXPECT_EQ(nics.send(1, 0, 250, start), start + 250ms);   // the other direction is free
  EXPECT_EQ(nics.send(0, 2, 500, start + 5s), start + 5500ms);
}

// A balanced all-to-all takes what a node sends, over the rate: no order of the messages makes it slower.
TEST(EmulatedNics, AllToAllTakesTheBytesOfANode) {
  constexpr int nodes = 4;
  EmulatedNics nics(nodes, 1000);
  EmulatedNics::Clock::time_point last = start;
  for (int from = 0; from < nodes; ++from)
    for (int to = 0; to < nodes; ++to) last = std::max(last, nics.send(from, to, 100, start));
  EXPECT_EQ(last, start + 300ms);
}

}  // namespace
}  // namespace dit
