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

/// GPUs of one node, in pairs that reach each other or alone, joined by memory of their host.
Topology through_host(int pairs, int of_each) {
  Topology topology = make_uniform_topology({pairs, of_each});
  topology.nic_level = static_cast<int>(topology.levels.size());
  topology.levels[0].name = "gpu";
  topology.levels[0].link.device_bandwidth = 450e9;
  topology.levels[1].also = {"host"};
  topology.levels[1].link.device_bandwidth = 63e9;
  return topology;
}

// And between two whose peers are refused, PCIe 5.
TEST(DeviceCost, ThroughMemoryOfTheHostItIsNearWhatWasMeasured) {
  const Topology two = through_host(2, 1);
  const auto near = [&](std::size_t block, double measured) {
    EXPECT_NEAR(predict_device(two, block << 20).value() * 1e6, measured, 0.1 * measured) << block;
  };
  near(7, 253);
  near(16, 488);
  near(64, 1651);
}

TEST(DeviceCost, PairsSendTheRestThroughTheHost) {
  const double pairs = predict_device(through_host(2, 2), 16 << 20).value();
  const double alone = predict_device(through_host(4, 1), 16 << 20).value();
  const double reached = predict_device(node_of(4, 63e9), 16 << 20).value();
  EXPECT_LT(pairs, 0.75 * alone) << "two blocks of three, and one beside them";
  EXPECT_GT(pairs, 0.6 * alone);
  EXPECT_GT(alone, reached);
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
