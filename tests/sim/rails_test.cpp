// Which NICs simulated messages take.
#include "rails.hpp"

#include <gtest/gtest.h>

namespace tapa::sim {
namespace {

using Rails = std::vector<std::vector<int>>;

Topology with(const Rails& rails) {
  Topology topology = make_uniform_topology({static_cast<int>(rails.size())});
  topology.nics.resize(4);
  topology.rails = rails;
  return topology;
}

TEST(Rails, RanksHaveAllTheirsWhereSetsAreEqualOrApart) {
  EXPECT_EQ(rails_in_use(with({{1, 0}, {0, 1}, {2}, {}})), (Rails{{0, 1}, {0, 1}, {2}, {}}));
}

TEST(Rails, RanksHaveOneEachWhereSetsOverlapInPart) {
  EXPECT_EQ(rails_in_use(with({{0, 1}, {1, 2}, {2, 3}, {}})), (Rails{{0}, {2}, {2}, {}}));
}

TEST(Rails, NoneWhereTheTopologyHasNone) {
  EXPECT_EQ(rails_in_use(make_uniform_topology({2})), (Rails{{}, {}}));
}

}  // namespace
}  // namespace tapa::sim
