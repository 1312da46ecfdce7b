#include "plan/device_cost.hpp"

#include <gtest/gtest.h>

#include "plan/cost.hpp"

namespace tapa {
namespace {

/// Ranks of one node whose GPUs are joined at one rate.
Topology node_of(int ranks, double rate) {
  Topology topology = make_uniform_topology({ranks});
  topology.nic_level = static_cast<int>(topology.levels.size());
  topology.levels[0].link.device_bandwidth = rate;
  return topology;
}

// What docs/gpu.md has measured on two H200 in a graph, a call: the prediction is of that size.
TEST(DeviceCost, IsNearWhatWasMeasured) {
  const Topology two = node_of(2, 450e9);
  const auto near = [&](std::size_t block, double measured) {
    const double predicted = predict_device(two, block).value() * 1e6;
    EXPECT_GT(predicted, 0.6 * measured) << block;
    EXPECT_LT(predicted, 1.4 * measured) << block;
  };
  near(1 << 10, 3.6);
  near(512 << 10, 8.8);
  near(8 << 20, 31.3);
  near(128 << 20, 382.2);
}

TEST(DeviceCost, GrowsWithBytesAndPeersAndFallsWithRates) {
  EXPECT_LT(predict_device(node_of(2, 450e9), 1 << 20).value(),
            predict_device(node_of(2, 450e9), 2 << 20).value());
  EXPECT_LT(predict_device(node_of(2, 450e9), 1 << 20).value(),
            predict_device(node_of(8, 450e9), 1 << 20).value());
  EXPECT_LT(predict_device(node_of(4, 450e9), 1 << 20).value(),
            predict_device(node_of(4, 31e9), 1 << 20).value());
}

TEST(DeviceCost, NothingIsKnownWithoutRatesOrAcrossNodes) {
  EXPECT_FALSE(predict_device(make_uniform_topology({4}), 1024));
  EXPECT_FALSE(predict_device(node_of(1, 450e9), 1024));
  Topology nodes = make_uniform_topology({2, 2});
  for (Level& level : nodes.levels) level.link.device_bandwidth = 1e9;
  EXPECT_FALSE(predict_device(nodes, 1024));
}

// Messages of the host do not become faster because GPUs have links.
TEST(DeviceCost, HostMessagesKeepTheirRates) {
  Topology plain = make_uniform_topology({4});
  plain.nic_level = static_cast<int>(plain.levels.size());
  const Rates with = rates_from(node_of(4, 450e9));
  const Rates without = rates_from(plain);
  for (std::size_t l = 0; l < with.levels.size(); ++l)
    EXPECT_EQ(with.levels[l].bandwidth, without.levels[l].bandwidth);
}

}  // namespace
}  // namespace tapa
