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

}  // namespace
}  // namespace tapa
