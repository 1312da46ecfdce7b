// What the cost model alone chooses.
#include "plan/choose.hpp"

#include <gtest/gtest.h>

#include "topology/topology.hpp"

namespace tapa {
namespace {

// Looking at sequence numbers and copying is what messages inside a node do too, and more.
TEST(Choose, SharedMemoryBeatsMessagesInsideANodeAtEverySize) {
  for (const int ranks : {2, 3, 4, 16, 31, 64}) {
    const Topology topology = make_uniform_topology({1, ranks});
    const Rates rates = rates_from(topology);
    for (std::size_t bytes = 1; bytes <= std::size_t{1} << 22; bytes *= 2) {
      const auto ranked = rank_candidates(topology, rates, {}, bytes, {false, true});
      ASSERT_EQ(to_string(ranked.front().choice), "memory")
          << ranks << " ranks, " << bytes << " bytes: " << why(ranked);
    }
  }
}

// A torus with corners, two ranks of a node wide, and one message of each node to the next.
TEST(Choose, BlocksAlongEdgesTravelTogetherWhereManyOfThemLeaveANode) {
  const Topology topology = make_uniform_topology({8, 16});
  const Rates rates = rates_from(topology);
  const auto best = [&](double share, std::size_t bytes) {
    const EdgeShape shape{static_cast<std::uint64_t>(share * 128 * 128), share, true};
    return rank_along_edges(topology, rates, shape, bytes, {}).front().choice.algorithm;
  };
  EXPECT_NE(best(0.5, 8), Algorithm::linear);
  EXPECT_EQ(best(1.0 / (128 * 112), 8), Algorithm::linear);
  EXPECT_EQ(best(0.01, std::size_t{1} << 20), Algorithm::linear);
}

TEST(Counts, AreMultiplied) {
  const Counts some = Counts::partial(3, {1}, {1, 0, 2}, {4, 0, 3}).times(8);
  EXPECT_EQ(some.bytes(1, 2), 16U);
  EXPECT_EQ(some.bytes(0, 1), 32U);
  EXPECT_FALSE(some.knows(0, 2));
}

}  // namespace
}  // namespace tapa
