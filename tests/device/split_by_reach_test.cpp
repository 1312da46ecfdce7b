// Which GPUs of a host reach each other.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "device/device_error.hpp"
#include "device/islands.hpp"
#include "device/lane_plan.hpp"

namespace tapa::device {
namespace {

using Pairs = std::set<std::pair<int, int>>;
using Members = std::vector<std::vector<int>>;

Members split(const std::vector<std::string>& nodes, const Pairs& one_way) {
  return split_by_reach(nodes_of_names(nodes),
                        [&](int a, int b) {
                          return one_way.contains({a, b});
                        })
      .members;
}

Pairs both(const Pairs& pairs) {
  Pairs all = pairs;
  for (const auto& [a, b] : pairs) all.emplace(b, a);
  return all;
}

TEST(SplitByReach, AllOrNone) {
  const std::vector<std::string> host(3, "a");
  EXPECT_EQ(split(host, both({{0, 1}, {0, 2}, {1, 2}})), (Members{{0, 1, 2}}));
  EXPECT_EQ(split(host, {}), (Members{{0}, {1}, {2}}));
}

TEST(SplitByReach, PairsWithBridges) {
  const std::vector<std::string> host(4, "a");
  EXPECT_EQ(split(host, both({{0, 1}, {2, 3}})), (Members{{0, 1}, {2, 3}}));
  EXPECT_EQ(split(host, both({{0, 2}, {1, 3}})), (Members{{0, 2}, {1, 3}}));
}

TEST(SplitByReach, OneWayIsNone) {
  EXPECT_EQ(split({"a", "a"}, {{0, 1}}), (Members{{0}, {1}}));
}

TEST(SplitByReach, AllOfAGroupAreWithinReach) {
  EXPECT_EQ(split({"a", "a", "a"}, both({{0, 1}, {1, 2}})), (Members{{0, 1}, {2}}));
}

TEST(SplitByReach, HostsStayApart) {
  EXPECT_EQ(split({"a", "b", "a", "b"}, both({{0, 2}, {0, 1}, {1, 3}})), (Members{{0, 2}, {1, 3}}));
  EXPECT_EQ(split({"a", "b", "a"}, {}), (Members{{0}, {1}, {2}}));
}

TEST(WantedPeers, AllNoneOrThoseOfAGroup) {
  EXPECT_TRUE(wanted_peers("").some);
  EXPECT_EQ(wanted_peers("").group, WantedPeers{}.group);
  EXPECT_FALSE(wanted_peers("0").some);
  EXPECT_EQ(wanted_peers("group:a").group, wanted_peers("group:a").group);
  EXPECT_NE(wanted_peers("group:a").group, wanted_peers("group:b").group);
  EXPECT_NE(wanted_peers("group:a").group, wanted_peers("1").group);
}

TEST(WantedPeers, AnythingElseIsRefused) {
  try {
    (void)wanted_peers("off");
    ADD_FAILURE();
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.code(), TAPA_DEVICE_ERR_ARG);
    EXPECT_EQ(error.what(),
              std::string("TAPA_GPU_PEERS is \"off\", expected 0, 1, or group: and a name of at "
                          "most 32 letters"));
  }
}

}  // namespace
}  // namespace tapa::device
