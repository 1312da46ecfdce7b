// What the cost model must get right where closed formulas are exact: the bytes of the busiest wire.
#include <gtest/gtest.h>

#include "plan/choose.hpp"
#include "plan/cost.hpp"
#include "topology/topology_file.hpp"

namespace tapa {
namespace {

constexpr std::size_t kLarge = std::size_t{1} << 20;
constexpr double kNic = 1e9;

Machine machine(const std::string& rack) {
  return read_machine(
      R"({"schema": "tapa-topology/1", "kind": "machine", "name": "m", "slots": 4, "copy": 1e15, "levels": [
      {"name": "node", "bandwidth": 1e12, "latency": 1e-9, "message": 1e-9},)" +
          rack + R"(
      {"name": "world", "bandwidth": 1e9, "latency": 1e-9, "message": 1e-9}],
      "nics": [{"name": "nic0", "bandwidth": 1e9}], "rails": [[0], [0], [0], [0]]})",
      "test");
}

/// Two NICs a node, each of two ranks.
Machine two_nics() {
  return read_machine(
      R"({"schema": "tapa-topology/1", "kind": "machine", "name": "m", "slots": 4, "copy": 1e15, "levels": [
      {"name": "node", "bandwidth": 1e12, "latency": 1e-9, "message": 1e-9},
      {"name": "world", "bandwidth": 1e9, "latency": 1e-9, "message": 1e-9}],
      "nics": [{"name": "nic0", "bandwidth": 1e9}, {"name": "nic1", "bandwidth": 1e9}],
      "rails": [[0], [0], [1], [1]]})",
      "test");
}

double seconds(const Topology& topology, const std::string& plan) {
  return predict(topology, rates_from(topology), parse_choice(plan), kLarge);
}

TEST(Predict, TheLargestNodeDecidesWhereNodesAreUnequal) {
  const Topology topology = instantiate(machine(""), std::vector<int>{0, 0, 0, 0, 1, 1, 2, 2});
  // 4 ranks send to 4 others elsewhere; the other nodes send 2 x 6 blocks.
  const double bound = 16.0 * kLarge / kNic;
  for (const char* plan : {"linear", "tapa:split=node", "tapa:split=node,order=slow-first"}) {
    EXPECT_GT(seconds(topology, plan), bound) << plan;
    EXPECT_LT(seconds(topology, plan), bound * 1.05) << plan;
  }
}

TEST(Predict, UplinksThatCarryLessThanTheNicsOfTheirNodesBound) {
  const std::string rack = R"({"name": "rack", "nodes": 2, "bandwidth": 1e9, "taper": TAPER},)";
  const auto with = [&](const std::string& taper) {
    std::string text = rack;
    text.replace(text.find("TAPER"), 5, taper);
    return seconds(instantiate(machine(text), 16, Placement::block), "linear");
  };
  // A node of 4 ranks sends 4 x 12 blocks through its NIC, and 2 nodes 8 x 8 through their uplink.
  EXPECT_NEAR(with("1"), 48.0 * kLarge / kNic, 0.01 * 48 * kLarge / kNic);
  EXPECT_NEAR(with("3"), 32.0 * 3 * kLarge / kNic, 0.01 * 96 * kLarge / kNic);
}

TEST(Predict, RanksThatShareOneOfTheirNodesNicsAreBoundByIt) {
  const Topology topology = instantiate(two_nics(), std::vector<int>{0, 0, 0, 0, 1, 1, 2, 2});
  // A small node's 2 x 6 blocks go through the first NIC; the large one's 4 x 4 through two.
  EXPECT_NEAR(seconds(topology, "linear"), 12.0 * kLarge / kNic, 0.02 * 12 * kLarge / kNic);
}

TEST(Predict, BruckBetweenUnequalNodesPassesOnWhatTheyHave) {
  const Topology topology = instantiate(machine(""), std::vector<int>{0, 0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 3});
  // A large node's blocks for the nodes 1 and 3 away, 4 x 2 each; then its 4 x 4 for the node 2 away and 2 x
  // 4 that it was given. In one stage for all: 4 x (2 + 4 + 2).
  EXPECT_NEAR(seconds(topology, "tapa:split=node,slow=bruck(2)"), 40.0 * kLarge / kNic,
              0.1 * 40 * kLarge / kNic);
  EXPECT_NEAR(seconds(topology, "tapa:split=node,slow=bruck(4)"), 32.0 * kLarge / kNic,
              0.02 * 32 * kLarge / kNic);
}

}  // namespace
}  // namespace tapa
