#include "topology/gpu_links.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "topology/detect.hpp"
#include "topology/nvml_source.hpp"
#include "topology/reach_groups.hpp"
#include "topology/topology_file.hpp"

namespace tapa {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Records of a rank for each of a node's GPUs.
std::vector<Record> two_on_each_socket(const std::vector<GpuLinks>& gpus) {
  std::vector<Record> records(gpus.size());
  for (int r = 0; r < static_cast<int>(gpus.size()); ++r) {
    Record& record = records[static_cast<std::size_t>(r)];
    record.host = record.node = "nd0";
    record.gpus = gpus;
    record.gpu = {"NVIDIA", gpus[static_cast<std::size_t>(r)].pci, r / 2, r, -1};
    record.numa = record.socket = r / 2;
  }
  return records;
}

/// A record of a rank of node nd0 that drives `gpu`; `gpus`: as tapa-info --json of such a machine has them.
Record rank_on(int gpu, int gpus, const std::string& links_of_each, int gpus_on_a_socket) {
  const auto pci = [](int g) {
    char text[32];
    std::snprintf(text, sizeof text, "0000:%02x:00.0", 0x18 + 8 * g);
    return std::string(text);
  };
  std::string json =
      R"({"schema": "tapa-record/1", "host": "nd0", "node": "nd0", "cores": 96, "gpu": {"gpu": )" +
      std::to_string(gpu) + R"(, "name": "NVIDIA", "pci": ")" + pci(gpu) + R"("}, "numa": )" +
      std::to_string(gpu / gpus_on_a_socket) + R"(, "socket": )" + std::to_string(gpu / gpus_on_a_socket) +
      R"(, "gpus": [)";
  for (int g = 0; g < gpus; ++g)
    json += std::string(g == 0 ? "" : ", ") + R"({"pci": ")" + pci(g) + "\"" + links_of_each + "}";
  return parse_record(json + "]}", "test");
}

std::vector<Record> node_of(int gpus, const std::string& links, int gpus_on_a_socket) {
  std::vector<Record> records;
  for (int g = 0; g < gpus; ++g) records.push_back(rank_on(g, gpus, links, gpus_on_a_socket));
  return records;
}

std::vector<std::string> names(const Topology& topology) {
  std::vector<std::string> all;
  for (const Level& level : topology.levels) all.push_back(level.name);
  return all;
}

// 8 H200 behind NVSwitch: the sockets do not matter to them.
TEST(GpuLinks, AnNvSwitchJoinsAllGpusOfANode) {
  const auto records =
      node_of(8, R"(, "name": "NVIDIA H200", "pcie": 63e9, "links": [{"count": 18, "bandwidth": 25e9}])", 4);
  EXPECT_THAT(nvlink_islands(records[0].gpus), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0));
  const GpuPath path = path_between(records[0].gpus, 0, 7);
  EXPECT_EQ(path.kind, GpuPath::Kind::nvlink);
  EXPECT_DOUBLE_EQ(path.bandwidth.value(), 450e9);
  EXPECT_EQ(text_of(records[0].gpus[0]), "18 NVLinks to a switch, 450 GB/s; PCIe 63 GB/s");
  const Topology topology = merge_records(records);
  EXPECT_EQ(topology.check(), "");
  EXPECT_GE(topology.find_level("nvlink"), 0);
  for (const Level& level : topology.levels) {
    EXPECT_DOUBLE_EQ(level.link.device_bandwidth.value_or(450e9), 450e9) << level.name;
  }
  EXPECT_DOUBLE_EQ(topology.levels.back().link.device_bandwidth.value(), 450e9);
}

// 4 A100 of PCIe 4.0 and no NVLink: nothing joins them but the node.
TEST(GpuLinks, WithoutNvLinkThereIsPcie) {
  const auto records = node_of(4, R"(, "name": "NVIDIA A100-PCIE-40GB", "pcie": 31.5e9)", 2);
  EXPECT_THAT(nvlink_islands(records[0].gpus), ElementsAre(0, 1, 2, 3));
  const Topology topology = merge_records(records);
  EXPECT_EQ(topology.find_level("nvlink"), -1);
  EXPECT_THAT(names(topology), ElementsAre("socket", "world"));
  for (const Level& level : topology.levels)
    EXPECT_DOUBLE_EQ(level.link.device_bandwidth.value(), 31.5e9) << level.name;
}

// Two pairs joined by bridges, each on its socket.
TEST(GpuLinks, BridgesMakeIslands) {
  std::vector<GpuLinks> gpus(4);
  for (std::size_t g = 0; g < 4; ++g) {
    gpus[g].pci = "0000:0" + std::to_string(g) + ":00.0";
    gpus[g].pcie = 31.5e9;
    gpus[g].links = {{"0000:0" + std::to_string(g ^ 1U) + ":00.0", 12, 25e9}};
  }
  EXPECT_THAT(nvlink_islands(gpus), ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(path_between(gpus, 0, 0).kind, GpuPath::Kind::same);
  EXPECT_DOUBLE_EQ(path_between(gpus, 2, 3).bandwidth.value(), 300e9);
  EXPECT_EQ(path_between(gpus, 1, 2).kind, GpuPath::Kind::pcie);
  const Topology topology = merge_records(two_on_each_socket(gpus));
  const int pair = topology.find_level("nvlink");
  ASSERT_GE(pair, 0);
  EXPECT_DOUBLE_EQ(topology.levels[static_cast<std::size_t>(pair)].link.device_bandwidth.value(), 300e9);
  EXPECT_DOUBLE_EQ(topology.levels.back().link.device_bandwidth.value(), 31.5e9);
  // What was found can be written and read.
  const Topology read = read_topology(write_topology(topology), "test");
  EXPECT_DOUBLE_EQ(read.levels.back().link.device_bandwidth.value(), 31.5e9);
  EXPECT_EQ(read.find_level("nvlink"), pair);
}

// Two GPUs, one on each socket.
TEST(GpuLinks, TwoGpusOnTwoSockets) {
  const Topology apart = merge_records(node_of(2, R"(, "pcie": 31.5e9)", 1));
  EXPECT_DOUBLE_EQ(apart.levels.back().link.device_bandwidth.value(), 31.5e9);
  const Topology unknown = merge_records(node_of(2, "", 1));
  EXPECT_FALSE(unknown.levels.back().link.device_bandwidth);
}

TEST(GpuLinks, RanksThatDoNotKnowTheirGpuMakeNoLevel) {
  auto records = node_of(4, R"(, "pcie": 63e9, "links": [{"count": 18, "bandwidth": 25e9}])", 2);
  records[3].gpu = {};
  const Topology topology = merge_records(records);
  EXPECT_EQ(topology.find_level("nvlink"), -1);
  EXPECT_EQ(topology.check(), "");
}

TEST(GpuLinks, RecordsKeepThem) {
  const Record record = rank_on(1, 3, R"(, "pcie": 63e9, "links": [{"count": 4, "bandwidth": 25e9}])", 2);
  EXPECT_EQ(parse_record(to_json(record), "test").gpus, record.gpus);
  EXPECT_THROW((void)rank_on(0, 1, R"(, "links": [{"count": 0, "bandwidth": 25e9}])", 1),
               std::invalid_argument);
  EXPECT_THROW((void)rank_on(0, 1, R"(, "links": [{"count": 1, "bandwidth": -1}])", 1),
               std::invalid_argument);
  EXPECT_THROW((void)rank_on(0, 1, R"(, "links": [{"count": 1}])", 1), std::invalid_argument);
  EXPECT_THROW((void)rank_on(0, 1, R"(, "speed": 1)", 1), std::invalid_argument);
}

TEST(GpuLinks, Rates) {
  EXPECT_NEAR(pcie_rate(5, 16).value(), 63.0e9, 0.1e9);
  EXPECT_NEAR(pcie_rate(4, 16).value(), 31.5e9, 0.1e9);
  EXPECT_FALSE(pcie_rate(0, 16) || pcie_rate(9, 16) || pcie_rate(4, 0));
  EXPECT_FALSE(nvlink_rate(0) || nvlink_rate(99));
  EXPECT_EQ(short_pci("00000000:1A:00.0"), "0000:1a:00.0");
  EXPECT_EQ(short_pci("0001:1a:00.0"), "0001:1a:00.0");
}

/// Four GPUs of PCIe 4.0, two on each socket: `bridge` joins each to another, which alone it reaches.
std::vector<Record> bridged(const std::vector<std::size_t>& bridge) {
  std::vector<GpuLinks> gpus(4);
  for (std::size_t g = 0; g < 4; ++g)
    gpus[g] = {"0000:0" + std::to_string(g) + ":00.0", "NVIDIA", 31.5e9, {}};
  refuse_peers(gpus);
  for (std::size_t g = 0; g < bridge.size(); ++g) {
    gpus[g].links = {{gpus[bridge[g]].pci, 4, 14e9}};
    std::erase(gpus[g].refuses, gpus[bridge[g]].pci);
  }
  return two_on_each_socket(gpus);
}

TEST(GpuReach, CardsThatRefuseEachOtherAreJoinedByTheirHost) {
  const Topology topology = merge_records(bridged({}));
  EXPECT_EQ(topology.check(), "");
  EXPECT_THAT(names(topology), ElementsAre("socket", "world"));
  EXPECT_THAT(topology.levels[1].also, ElementsAre("host", "node"));
  EXPECT_EQ(topology.find_level("gpu"), -1);
  for (int level = 0; level < 2; ++level) {
    EXPECT_TRUE(topology.through_host(level)) << level;
    EXPECT_EQ(topology.levels[static_cast<std::size_t>(level)].link.device_bandwidth, 31.5e9) << level;
  }
}

TEST(GpuReach, PairsWithBridgesAreALevel) {
  const Topology pairs = merge_records(bridged({1, 0, 3, 2}));
  const Topology read = read_topology(write_topology(pairs), "test");
  for (const Topology& topology : {pairs, read}) {
    const int gpu = topology.find_level("gpu");
    ASSERT_EQ(gpu, 0);
    EXPECT_EQ(topology.find_level("nvlink"), 0);
    EXPECT_FALSE(topology.through_host(0));
    EXPECT_TRUE(topology.through_host(1));
    EXPECT_EQ(topology.levels[0].link.device_bandwidth, 56e9);
    EXPECT_EQ(topology.levels[1].link.device_bandwidth, 31.5e9);
  }
  EXPECT_FALSE(pairs.subset({0, 1}).through_host(0)) << "they reach each other";
  EXPECT_TRUE(pairs.subset({1, 2}).through_host(pairs.subset({1, 2}).level_of(0, 1)));
}

TEST(GpuReach, BridgesAcrossSocketsAreKeptAndSocketsAreNot) {
  const Topology topology = merge_records(bridged({2, 3, 0, 1}));
  EXPECT_EQ(topology.check(), "");
  EXPECT_THAT(topology.levels[0].group, ElementsAre(0, 1, 0, 1));
  EXPECT_EQ(topology.find_level("gpu"), 0);
  EXPECT_EQ(topology.find_level("socket"), -1);
  EXPECT_TRUE(topology.through_host(topology.level_of(0, 1)));
}

TEST(GpuReach, ALinkThatIsRefusedIsNone) {
  auto records = node_of(4, R"(, "pcie": 63e9, "links": [{"count": 18, "bandwidth": 25e9}])", 4);
  EXPECT_EQ(merge_records(records).find_level("host"), -1);
  for (Record& record : records) refuse_peers(record.gpus);
  const Topology topology = merge_records(records);
  EXPECT_EQ(topology.find_level("nvlink"), -1);
  EXPECT_TRUE(topology.through_host(topology.find_level("host")));
  EXPECT_EQ(topology.levels.back().link.device_bandwidth, 63e9);
}

TEST(GpuReach, AboveTheHostAreOtherLevels) {
  auto records = bridged({1, 0, 3, 2});
  for (Record other : bridged({})) {
    other.host = other.node = "nd1";
    records.push_back(other);
  }
  const Topology topology = merge_records(records);
  EXPECT_EQ(topology.check(), "");
  EXPECT_THAT(names(topology), ElementsAre("gpu", "socket", "node", "world"));
  const auto through = [&](int a, int b) { return topology.through_host(topology.level_of(a, b)); };
  EXPECT_FALSE(through(0, 1));
  EXPECT_TRUE(through(1, 2) && through(4, 5) && through(5, 6));
  EXPECT_FALSE(through(0, 4));
}

TEST(GpuReach, WhereARankDoesNotKnowItsGpuNothingIsSaid) {
  auto records = bridged({});
  records[2].gpu = {};
  EXPECT_EQ(merge_records(records).find_level("host"), -1);
}

// As batch systems show them that give each rank a GPU of its own.
TEST(GpuLinks, RanksThatSeeTheirOwnGpuAloneKnowThemTogether) {
  auto records = bridged({1, 0, 3, 2});
  for (std::size_t r = 0; r < records.size(); ++r) {
    GpuLinks own = records[r].gpus[r];
    own.refuses.clear();
    records[r].gpus = {own};
  }
  const Topology topology = merge_records(records);
  const int pair = topology.find_level("nvlink");
  ASSERT_GE(pair, 0);
  EXPECT_THAT(topology.levels[static_cast<std::size_t>(pair)].group, ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(topology.levels[static_cast<std::size_t>(pair)].link.device_bandwidth, 56e9);
  EXPECT_EQ(topology.levels.back().link.device_bandwidth, 31.5e9);
}

/// Eight GPUs, of which each reaches those of its half and its counterpart in the other, as NVLinks of V100s
/// join them.
std::vector<Record> ranks_on_cube(const std::vector<std::size_t>& driven) {
  std::vector<GpuLinks> gpus(8);
  for (std::size_t g = 0; g < 8; ++g)
    gpus[g] = {"0000:0" + std::to_string(g) + ":00.0", "NVIDIA", 15.75e9, {}};
  refuse_peers(gpus);
  for (std::size_t g = 0; g < 8; ++g) {
    std::erase_if(gpus[g].refuses, [&](const std::string& pci) {
      return pci[6] - '0' == static_cast<int>((g + 4) % 8) || (pci[6] < '4') == (g < 4);
    });
  }
  std::vector<Record> records;
  for (const std::size_t g : driven) {
    records.emplace_back();
    records.back().host = records.back().node = "nd0";
    records.back().gpus = gpus;
    records.back().gpu = {"NVIDIA", gpus[g].pci, -1, static_cast<int>(g), -1};
  }
  return records;
}

// GPUs that no rank drives keep none apart that do, and ranks are counted in their own order.
TEST(GpuReach, OnlyGpusThatRanksDriveMakeGroups) {
  EXPECT_EQ(merge_records(ranks_on_cube({0, 4})).find_level("host"), -1);
  const Topology whole = merge_records(ranks_on_cube({0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_THAT(whole.levels[0].group, ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
  const Topology crossed = merge_records(ranks_on_cube({0, 4, 1, 5}));
  EXPECT_THAT(crossed.levels[0].group, ElementsAre(0, 0, 1, 1));
}

// As with TAPA_GPU_PEERS=0 on one rank, whichever that is.
TEST(GpuReach, WhatOneRankRefusesNoneReaches) {
  for (std::size_t one = 0; one < 4; ++one) {
    auto records = node_of(4, R"(, "pcie": 63e9)", 4);
    refuse_peers(records[one].gpus);
    const Topology topology = merge_records(records);
    for (int other = 0; other < 4; ++other) {
      const int self = static_cast<int>(one);
      if (other == self) continue;
      EXPECT_TRUE(topology.through_host(topology.level_of(self, other))) << one << ", " << other;
    }
    const int a = one == 0 ? 1 : 0;
    const int b = one == 3 ? 2 : 3;
    EXPECT_FALSE(topology.through_host(topology.level_of(a, b))) << one;
  }
}

// As with TAPA_GPU_PEERS=group:a and group:b.
TEST(GpuReach, RanksOfOtherGroupsAreNotReached) {
  for (const std::string links : {R"(, "pcie": 63e9)", R"(, "links": [{"count": 18, "bandwidth": 25e9}])"}) {
    auto records = node_of(4, links, 4);
    for (std::size_t r = 0; r < 4; ++r) {
      records[r].gpu_peers = r % 2 == 0 ? "a" : "b";
      records[r] = parse_record(to_json(records[r]), "a rank");  // as others get it
    }
    const Topology topology = merge_records(records);
    EXPECT_EQ(topology.check(), "");
    for (int a = 0; a < 4; ++a) {
      for (int b = 0; b < a; ++b)
        EXPECT_EQ(topology.through_host(topology.level_of(a, b)), a % 2 != b % 2) << a << ", " << b;
    }
  }
}

// All ways in which four GPUs can refuse each other.
TEST(GpuReach, IslandsAreOfThoseThatAllReachEachOther) {
  for (unsigned refusals = 0; refusals < 1U << 12; ++refusals) {
    std::vector<GpuLinks> gpus(4);
    for (std::size_t g = 0; g < 4; ++g) gpus[g].pci = std::to_string(g);
    const auto refuses = [&](std::size_t a, std::size_t b) {
      return (refusals >> (a * 3 + b - (b > a ? 1 : 0)) & 1) != 0;
    };
    const auto reach = [&](std::size_t a, std::size_t b) {
      return a == b || !(refuses(a, b) || refuses(b, a));
    };
    for (std::size_t a = 0; a < 4; ++a)
      for (std::size_t b = 0; b < 4; ++b)
        if (a != b && refuses(a, b)) gpus[a].refuses.push_back(gpus[b].pci);
    const std::vector<int> island = groups_by_reach(gpus.size(), [&](std::size_t a, std::size_t b) {
      return path_between(gpus, a, b).kind != GpuPath::Kind::host;
    });
    for (std::size_t a = 0; a < 4; ++a) {
      for (int number = 0; number <= island[a]; ++number) {
        bool fits = true;
        for (std::size_t b = 0; b < a; ++b) fits = fits && (island[b] != number || reach(a, b));
        EXPECT_EQ(fits, number == island[a]) << refusals << ": " << a << ", " << number;
      }
    }
  }
}

TEST(GpuReach, RecordsKeepIt) {
  const Record record = bridged({1, 0, 3, 2})[0];
  EXPECT_EQ(parse_record(to_json(record), "test").gpus, record.gpus);
  EXPECT_EQ(text_of(record.gpus[0]),
            "4 NVLinks to 0000:01:00.0, 56 GB/s; PCIe 32 GB/s; does not reach 2 of the others");
  EXPECT_THROW((void)rank_on(0, 1, R"(, "refuses": 3)", 1), std::invalid_argument);
}

// As somebody writes it who plans such a host.
TEST(GpuReach, AMachineFileNamesTheLevels) {
  const Machine machine = read_machine(R"({"schema": "tapa-topology/1", "kind": "machine", "name": "cards",
    "slots": 4, "levels": [{"name": "gpu", "groups": [[0, 1], [2, 3]], "device_bandwidth": 56e9},
    {"name": "host", "groups": [[0, 1, 2, 3]], "device_bandwidth": 31.5e9}, {"name": "node"},
    {"name": "world"}]})",
                                       "test");
  const Topology topology = instantiate(machine, 4);
  EXPECT_FALSE(topology.through_host(topology.level_of(2, 3)));
  const int host = topology.level_of(1, 2);
  EXPECT_TRUE(topology.through_host(host));
  EXPECT_EQ(topology.levels[static_cast<std::size_t>(host)].link.device_bandwidth, 31.5e9);
}

// Parts of a GPU in MIG mode do not share memory; nor do ranks of one GPU that all refuse each other.
TEST(GpuReach, AGpuMayRefuseItself) {
  auto records = node_of(2, R"(, "pcie": 63e9)", 2);
  records.push_back(records[1]);
  EXPECT_EQ(merge_records(records).find_level("host"), -1);
  for (Record& record : records) record.gpus[1].refuses = {record.gpus[1].pci};
  const Topology parts = merge_records(records);
  EXPECT_TRUE(parts.through_host(parts.level_of(1, 2)));
  EXPECT_FALSE(parts.through_host(parts.level_of(0, 1)));
  EXPECT_EQ(parts.levels.back().link.device_bandwidth, 63e9);
  for (Record& record : records) refuse_peers(record.gpus);
  const Topology all = merge_records(records);
  EXPECT_TRUE(all.through_host(all.level_of(1, 2)) && all.through_host(all.level_of(0, 1)));
  EXPECT_THAT(text_of(records[1].gpus[1]), HasSubstr("; does not reach 1 of the others"));
}

TEST(GpuReach, NoHostJoinsNodes) {
  Topology topology = make_uniform_topology({2, 2, 2});
  topology.levels.back().also = {"host"};
  EXPECT_TRUE(topology.through_host(topology.level_of(0, 1)) &&
              topology.through_host(topology.level_of(0, 2)));
  EXPECT_FALSE(topology.through_host(topology.level_of(0, 4)));
}

/// FAKE_NVML is its file, see there.
TEST(Nvml, IsAskedForWhatJoinsTheGpus) {
  const char* const library = std::getenv("FAKE_NVML");
  ASSERT_NE(library, nullptr);
  SourceReport report;
  const std::vector<GpuLinks> gpus = ask_nvml(report, library);
  ASSERT_EQ(gpus.size(), 4U) << report.detail;
  EXPECT_TRUE(report.used);
  EXPECT_THAT(report.detail,
              HasSubstr("GPUs 4, each with 2 NVLinks to 0000:1b:00.0, 50 GB/s; 1 NVLink to a switch"));
  EXPECT_EQ(gpus[0].name, "NVIDIA Test 0");
  EXPECT_THAT(gpus[0].links, ElementsAre(NvLink{"0000:1b:00.0", 2, 25e9}, NvLink{"", 1, 25e9}));
  EXPECT_TRUE(gpus[2].links.empty());
  EXPECT_THAT(gpus[2].refuses, ElementsAre("0000:1d:00.0"));
  EXPECT_THAT(gpus[0].refuses, IsEmpty());
  EXPECT_THAT(gpus[3].refuses, ElementsAre("0000:1a:00.0", "0000:1b:00.0", "0000:1c:00.0", "0000:1d:00.0"))
      << "it is in MIG mode";
  EXPECT_NEAR(gpus[3].pcie.value(), 7.88e9, 0.01e9);
  EXPECT_THAT(nvlink_islands(gpus), ElementsAre(0, 0, 1, 2));
  EXPECT_DOUBLE_EQ(path_between(gpus, 0, 1).bandwidth.value(), 75e9);
}

TEST(Nvml, ItsAbsenceIsReported) {
  SourceReport report;
  EXPECT_TRUE(ask_nvml(report, "libnothing-of-this-name.so").empty());
  EXPECT_FALSE(report.used);
  EXPECT_EQ(report.detail, "libnothing-of-this-name.so is not there");
}

}  // namespace
}  // namespace tapa
