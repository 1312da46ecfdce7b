#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>

#include "topology/topology_file.hpp"

namespace tapa {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

template <class Call>
std::string message(const Call& call) {
  try {
    (void)call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

std::vector<std::string> level_names(const Topology& t) {
  std::vector<std::string> names;
  for (const Level& l : t.levels) names.push_back(l.name);
  return names;
}

TEST(Machines, AllShippedOnesAreValidAtManySizes) {
  std::set<std::string> names;
  for (const MachineFile& file : shipped_machines()) {
    names.insert(file.name);
    const Machine machine = load_machine(file.name);
    EXPECT_EQ(machine.name, file.name);
    EXPECT_FALSE(machine.description.empty());
    for (int ranks : {1, 2, 3, machine.slots - 1, machine.slots, machine.slots + 1, 5 * machine.slots - 3,
                      100 * machine.slots}) {
      if (ranks < 1) continue;
      for (Placement placement : {Placement::block, Placement::round_robin}) {
        const Topology t = instantiate(machine, ranks, placement);
        EXPECT_EQ(t.check(), "") << file.name << " " << ranks;
        EXPECT_EQ(t.ranks, ranks);
        EXPECT_EQ(t.nodes(), (ranks - 1) / machine.slots + 1);
        EXPECT_EQ(t.nic_level == static_cast<int>(t.levels.size()), ranks <= machine.slots);
      }
    }
  }
  for (const char* name : {"aurora", "frontier", "polaris", "hgx-h100", "cpu-2socket"})
    EXPECT_EQ(names.count(name), 1u) << name;
}

/// A figure in a shipped file stands in an object with a "source".
TEST(Machines, EveryFigureHasItsSource) {
  for (const MachineFile& file : shipped_machines()) {
    std::ifstream in(file.path);
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    for (const char* figure : {"\"bandwidth\"", "\"latency\"", "\"message\""}) {
      for (std::size_t at = text.find(figure); at != std::string::npos; at = text.find(figure, at + 1)) {
        const std::size_t open = text.rfind('{', at);
        const std::size_t close = text.find('}', at);
        EXPECT_THAT(text.substr(open, close - open), HasSubstr("\"source\": \"")) << file.path;
      }
    }
  }
}

TEST(Machines, AuroraHasThePublishedNicMap) {
  const Topology t = load_topology("aurora", 24);
  EXPECT_THAT(level_names(t), ElementsAre("tile", "node", "world"));
  EXPECT_EQ(t.nic_level, 2);
  EXPECT_EQ(t.find_level("rack"), 2);  // two nodes of one group: the rack is the world
  const std::vector<int> published = {0, 1, 2, 3, 0, 1, 4, 5, 6, 7, 6, 7};
  ASSERT_EQ(t.nics.size(), 16u);
  for (std::size_t r = 0; r < 24; ++r) {
    const int node = static_cast<int>(r / 12);
    EXPECT_THAT(t.rails[r], ElementsAre(8 * node + published[r % 12]));
    EXPECT_EQ(t.levels[0].group[r], static_cast<int>(r / 2));
    EXPECT_EQ(t.levels[1].group[r], node);
    // A rank's NIC hangs on the socket of its GPU.
    EXPECT_EQ(t.devices[r].numa, t.nics[static_cast<std::size_t>(t.rails[r][0])].numa);
  }
  EXPECT_EQ(t.devices[13].name, "GPU 0 tile 1");
  EXPECT_EQ(t.levels[0].link.bandwidth, 185e9);
  EXPECT_EQ(t.levels[1].link.bandwidth, 15e9);
  EXPECT_EQ(t.nics[9].bandwidth, 25e9);
}

TEST(Machines, AuroraRacksAppearBeyondOneGroup) {
  const Topology t = load_topology("aurora", 65 * 12);
  EXPECT_THAT(level_names(t), ElementsAre("tile", "node", "rack", "world"));
  EXPECT_EQ(t.levels[2].groups, 2);
  EXPECT_EQ(t.nic_level, 2);
}

TEST(Machines, FrontierGpusShareANic) {
  const Topology t = load_topology("frontier", 16);
  for (std::size_t r = 0; r < 16; r += 2) {
    EXPECT_EQ(t.rails[r], t.rails[r + 1]);
    EXPECT_EQ(t.levels[0].group[r], t.levels[0].group[r + 1]);
  }
  EXPECT_EQ(t.nics.size(), 8u);
}

TEST(Machines, HgxHasARailForEachGpu) {
  const Topology t = load_topology("hgx-h100", 16);
  EXPECT_THAT(level_names(t), ElementsAre("node", "world"));
  const char* names[] = {"mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11"};
  for (std::size_t r = 0; r < 16; ++r) {
    ASSERT_THAT(t.rails[r], ElementsAre(static_cast<int>(r)));
    EXPECT_EQ(t.nics[r].name, names[r % 8]);
    EXPECT_EQ(t.nics[r].numa, t.devices[r].numa);
  }
}

TEST(Machines, CpuNodeHasTwoSockets) {
  const Topology t = load_topology("cpu-2socket");
  EXPECT_EQ(t.ranks, 56);
  EXPECT_THAT(level_names(t), ElementsAre("socket", "world"));
  EXPECT_EQ(t.find_level("node"), 1);
}

TEST(Instantiate, RoundRobin) {
  const Topology t = load_topology("aurora", 24, Placement::round_robin);
  for (std::size_t r = 0; r < 24; ++r) EXPECT_EQ(t.levels[1].group[r], static_cast<int>(r % 2));
  EXPECT_EQ(t.level_of(0, 2), 0);  // the two tiles of node 0's first GPU
  EXPECT_THAT(t.rails[3], ElementsAre(8 + 1));
}

TEST(Instantiate, FewerRanksOnEachNode) {
  const Topology t = load_topology("aurora", 8, Placement::block, 4);
  EXPECT_EQ(t.nodes(), 2);
  EXPECT_THAT(t.levels[1].group, ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
  EXPECT_EQ(load_topology("aurora", 0, Placement::block, 4).ranks, 4);
}

TEST(Instantiate, ExplicitUnequalNodes) {
  const Topology t = instantiate(load_machine("frontier"), std::vector<int>{9, 4, 9, 9, 4, 70});
  EXPECT_EQ(t.check(), "");
  EXPECT_THAT(t.groups_of(1), ElementsAre(ElementsAre(0, 2, 3), ElementsAre(1, 4), ElementsAre(5)));
  EXPECT_EQ(t.level_of(0, 2), 0);
  EXPECT_EQ(t.level_of(0, 3), 1);
  EXPECT_EQ(t.nics.size(), 12u);
}

TEST(Instantiate, ExplicitRacksUseTheNodeNumbers) {
  const Machine machine = load_machine("aurora");
  const Topology t = instantiate(machine, std::vector<int>{0, 63, 64, 127});
  ASSERT_EQ(t.levels.size(), 3u);
  EXPECT_EQ(t.levels[1].name, "rack");
  EXPECT_THAT(t.levels[1].group, ElementsAre(0, 0, 1, 1));
}

TEST(Instantiate, Errors) {
  const Machine m = load_machine("polaris");
  EXPECT_EQ(message([&] { return instantiate(m, 0); }), "machine polaris: 0 ranks, expected 1 to 1048576");
  EXPECT_EQ(message([&] { return instantiate(m, -4); }), "machine polaris: -4 ranks, expected 1 to 1048576");
  EXPECT_EQ(message([&] { return instantiate(m, 1 << 30); }),
            "machine polaris: 1073741824 ranks, expected 1 to 1048576");
  EXPECT_EQ(message([&] { return instantiate(m, 4, Placement::block, 5); }),
            "machine polaris: 5 ranks per node, expected 1 to 4");
  EXPECT_EQ(message([&] { return instantiate(m, 4, Placement::block, -1); }),
            "machine polaris: -1 ranks per node, expected 1 to 4");
  EXPECT_EQ(message([&] { return instantiate(m, std::vector<int>{}); }),
            "machine polaris: 0 ranks, expected 1 to 1048576");
  EXPECT_EQ(message([&] {
              return instantiate(m, std::vector<int>{0, -1});
            }),
            "machine polaris: rank 1 is on node -1, expected at least 0");
  EXPECT_EQ(message([&] {
              return instantiate(m, std::vector<int>{1, 1, 1, 0, 1, 1});
            }),
            "machine polaris: rank 5 is number 5 of its node, expected at most 4 ranks on a node");
  EXPECT_EQ(message([&] { return instantiate(load_machine("cpu-2socket"), 1 << 20, Placement::block, 1); }),
            "machine cpu-2socket: 1048576 nodes are too many");
}

TEST(Folders, APathIsTakenAsItIs) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("tapa-machines-" + std::to_string(std::rand()));
  std::filesystem::create_directories(folder);
  std::filesystem::copy(load_machine("polaris").origin, folder / "aurora.json");
  EXPECT_EQ(load_machine((folder / "aurora.json").string()).slots, 4);
  EXPECT_EQ(load_machine("aurora").slots, 12);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tapa
