#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "topology/detect.hpp"

namespace tapa {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// A process on node `node` of a cluster whose nodes have a kernel each and the NICs nic0 .. nics-1.
Record process(int node, int nics = 1) {
  Record r;
  r.host = "nd" + std::to_string(node);
  r.kernel = "boot" + std::to_string(node);
  r.node = r.kernel + " uts ipc net";
  r.cores = 8;
  for (int n = 0; n < nics; ++n) r.nics.push_back({"nic" + std::to_string(n), 0, 1e9, {}, {}, "tcp", -1});
  r.sources = {{"hwloc", true, "words"}};
  return r;
}

std::vector<std::string> level_names(const Topology& t) {
  std::vector<std::string> names;
  for (const Level& l : t.levels) names.push_back(l.name);
  return names;
}

std::string message(const std::vector<std::string>& records) {
  try {
    (void)merge_records(records);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

/// Node of each rank under a placement of ranks on nodes of the given sizes.
std::vector<int> block(const std::vector<int>& sizes) {
  std::vector<int> node;
  for (std::size_t n = 0; n < sizes.size(); ++n)
    node.insert(node.end(), static_cast<std::size_t>(sizes[n]), static_cast<int>(n));
  return node;
}

std::vector<int> round_robin(std::vector<int> sizes) {
  std::vector<int> node;
  while (std::any_of(sizes.begin(), sizes.end(), [](int s) { return s > 0; })) {
    for (std::size_t n = 0; n < sizes.size(); ++n) {
      if (sizes[n]-- > 0) node.push_back(static_cast<int>(n));
    }
  }
  return node;
}

TEST(Merge, NodesOfAnyShapeAndPlacement) {
  const std::vector<std::vector<int>> shapes = {{1},          {4},       {1, 1},    {4, 4},
                                                {4, 4, 4, 4}, {1, 2, 3}, {5, 1, 2}, {3, 1, 1, 7}};
  for (const std::vector<int>& sizes : shapes) {
    for (const std::vector<int>& node : {block(sizes), round_robin(sizes)}) {
      for (int nics : {0, 1, 2, 3}) {
        std::vector<Record> records;
        for (int n : node) records.push_back(process(n, nics));
        const Topology t = merge_records(records);
        ASSERT_EQ(t.check(), "");
        EXPECT_EQ(t.nodes(), static_cast<int>(sizes.size()));
        for (std::size_t a = 0; a < node.size(); ++a) {
          for (std::size_t b = 0; b < node.size(); ++b) {
            EXPECT_EQ(node[a] == node[b], t.node_of(static_cast<int>(a)) == t.node_of(static_cast<int>(b)));
          }
        }
        EXPECT_EQ(t.nic_level == static_cast<int>(t.levels.size()), sizes.size() == 1);
        EXPECT_EQ(t.nics.size(), sizes.size() * static_cast<std::size_t>(nics));
        EXPECT_GE(t.find_level("node"), 0);
        // The i-th rank of a node uses NIC i mod nics.
        std::vector<int> seen(sizes.size(), 0);
        for (std::size_t r = 0; r < node.size() && nics > 0; ++r) {
          ASSERT_EQ(t.rails[r].size(), 1u);
          const Nic& nic = t.nics[static_cast<std::size_t>(t.rails[r][0])];
          EXPECT_EQ(nic.name, "nic" + std::to_string(seen[static_cast<std::size_t>(node[r])]++ % nics));
        }
      }
    }
  }
}

TEST(Merge, SlowestNicBoundsTheWorld) {
  std::vector<Record> records = {process(0), process(1), process(1)};
  records[1].nics[0].bandwidth = 5e8;
  records[2].nics[0].bandwidth = 5e8;
  Topology t = merge_records(records);
  EXPECT_THAT(level_names(t), ElementsAre("node", "world"));
  EXPECT_EQ(t.levels[1].link.bandwidth, 5e8);
  EXPECT_FALSE(t.levels[0].link.bandwidth.has_value());
  records[0].nics[0].bandwidth.reset();
  EXPECT_FALSE(merge_records(records).levels[1].link.bandwidth.has_value());
}

TEST(Merge, NamespacesOfOneKernelAreNodesThatShareCores) {
  std::vector<Record> records;
  for (int r = 0; r < 16; ++r) {
    records.push_back(process(r / 4));
    records.back().kernel = "one";
    records.back().node = "one uts" + std::to_string(r / 4);
    records.back().cores = 2;
    records.back().allowed = "0-1";
  }
  EXPECT_EQ(merge_records(records).nodes(), 4);
  EXPECT_EQ(merge_records(records).cores_per_rank, 0.125);
}

TEST(Merge, CoresOfTheFullestHost) {
  std::vector<Record> records = {process(0), process(1), process(1), process(1)};
  EXPECT_DOUBLE_EQ(*merge_records(records).cores_per_rank, 8.0 / 3);
  // A batch system that gives each task cores of its own
  for (std::size_t r = 0; r < 4; ++r)
    records[r].allowed = std::to_string(8 * r) + "-" + std::to_string(8 * r + 7);
  EXPECT_EQ(merge_records(records).cores_per_rank, 8.0);
  records[2].cores = 0;
  EXPECT_FALSE(merge_records(records).cores_per_rank.has_value());
}

TEST(Merge, SameHostNameOnTwoKernelsAreTwoNodes) {
  std::vector<Record> records = {process(0), process(1)};
  records[1].host = records[0].host;
  EXPECT_EQ(merge_records(records).nodes(), 2);
}

TEST(Merge, TilesOfOneGpu) {
  std::vector<Record> records;
  for (int r = 0; r < 12; ++r) {
    records.push_back(process(r % 2));  // round robin over two nodes of three GPUs
    const int local = r / 2;
    records.back().gpu = {"Intel", "0000:0" + std::to_string(local / 2) + ":00.0", 0, local / 2, local % 2};
    records.back().socket = local / 4;
  }
  const Topology t = merge_records(records);
  EXPECT_EQ(t.check(), "");
  EXPECT_THAT(level_names(t), ElementsAre("tile", "socket", "node", "world"));
  EXPECT_THAT(t.groups_of(0)[0], ElementsAre(0, 2));
  EXPECT_EQ(t.devices[2].pci, "0000:00:00.0");
  records[5].gpu = {};
  EXPECT_EQ(merge_records(records).find_level("tile"), -1);
}

TEST(Merge, PlacesOnlyWhenEveryRankKnows) {
  std::vector<Record> records;
  for (int r = 0; r < 8; ++r) {
    records.push_back(process(0));
    records.back().socket = r / 4;
    records.back().numa = r / 2;
    records.back().l3 = r;  // one for each rank: not a level
  }
  EXPECT_THAT(level_names(merge_records(records)), ElementsAre("numa", "socket", "world"));
  records[7].socket = -1;
  EXPECT_THAT(level_names(merge_records(records)), ElementsAre("numa", "world"));
  for (Record& r : records) r.socket = 0;
  const Topology t = merge_records(records);
  EXPECT_THAT(level_names(t), ElementsAre("numa", "world"));
  EXPECT_EQ(t.find_level("socket"), 1);
}

TEST(Merge, FinerPlacesComeFirstWhateverTheirKind) {
  // Sub-NUMA clusters: two NUMA nodes share one L3.
  std::vector<Record> records;
  for (int r = 0; r < 8; ++r) {
    records.push_back(process(0));
    records.back().socket = r / 4;
    records.back().l3 = r / 4;
    records.back().numa = r / 2;
  }
  const Topology t = merge_records(records);
  EXPECT_THAT(level_names(t), ElementsAre("numa", "socket", "world"));
  EXPECT_EQ(t.find_level("l3"), t.find_level("socket"));
}

TEST(Merge, WhatDoesNotNestIsLeftOut) {
  std::vector<Record> records;
  for (int r = 0; r < 4; ++r) {
    records.push_back(process(0));
    records.back().socket = r / 2;
    records.back().numa = r % 2;  // across the sockets
  }
  const Topology t = merge_records(records);
  EXPECT_EQ(t.check(), "");
  EXPECT_EQ(t.levels.size(), 2u);
}

TEST(Merge, Racks) {
  std::vector<Record> records;
  for (int r = 0; r < 6; ++r) {
    records.push_back(process(r / 2));
    records.back().rack = r < 4 ? "leaf1" : "leaf2";
  }
  EXPECT_THAT(level_names(merge_records(records)), ElementsAre("node", "rack", "world"));
  EXPECT_EQ(merge_records(records).nic_level, 1);
  records[1].rack = "leaf2";  // one node on two leaves: not a level
  EXPECT_THAT(level_names(merge_records(records)), ElementsAre("node", "world"));
  records[1].rack = "";
  EXPECT_THAT(level_names(merge_records(records)), ElementsAre("node", "world"));
}

TEST(Merge, NearestNicsAreTakenInTurn) {
  std::vector<Record> records;
  for (int r = 0; r < 8; ++r) {
    records.push_back(process(r / 6, 4));  // 6 ranks and 2 ranks
    records.back().near = r % 2 == 0 ? std::vector<int>{0, 1} : std::vector<int>{3};
  }
  const Topology t = merge_records(records);
  EXPECT_THAT(t.rails, ElementsAre(ElementsAre(0), ElementsAre(3), ElementsAre(1), ElementsAre(3),
                                   ElementsAre(0), ElementsAre(3), ElementsAre(4), ElementsAre(7)));
}

TEST(Merge, NicsOfANodeComeFromItsFullestList) {
  std::vector<Record> records = {process(0, 1), process(0, 2), process(0, 2)};
  records[1].near = {1};
  const Topology t = merge_records(records);
  EXPECT_EQ(t.nics.size(), 2u);
  EXPECT_THAT(t.rails, ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(1)));
}

TEST(Merge, ReportsSourcesAndNotes) {
  std::vector<Record> records = {process(0), process(0), process(1)};
  records[1].sources[0].used = false;
  records[2].notes = {"bad rate"};
  const Topology t = merge_records(records);
  ASSERT_EQ(t.sources.size(), 2u);
  EXPECT_EQ(t.sources[0].detail, "words (2 of 3 ranks)");
  EXPECT_EQ(t.sources[1].name, "environment");
  EXPECT_EQ(t.sources[1].detail, "rank 2: bad rate");
  for (Record& r : records) r.notes = {"bad rate"};
  EXPECT_EQ(merge_records(records).sources[1].detail, "bad rate");
}

TEST(Merge, Devices) {
  std::vector<Record> records = {process(0), process(0)};
  EXPECT_THAT(merge_records(records).devices, IsEmpty());
  records[1].bound_cores = 2;
  records[1].cpus = "0-1";
  const Topology t = merge_records(records);
  EXPECT_EQ(t.devices[0].name, "unbound");
  EXPECT_EQ(t.devices[1].name, "cpus 0-1");
}

TEST(Records, TextAndBack) {
  Record r = process(3, 2);
  r.rack = "leaf";
  r.allowed = "0-7";
  r.bound_cores = 2;
  r.cpus = "0-1";
  r.l3 = 1;
  r.numa = 0;
  r.socket = 0;
  r.gpu = {"Intel 0 tile 1", "0000:18:00.0", 0, 0, 1};
  r.nics[1].pci = "0000:19:00.0";
  r.nics[1].numa = 1;
  r.near = {1};
  r.notes = {"note"};
  r.facts = {"CPU", 2, 4, 6, 1e11, "madvise", 1, 5e9};
  const std::string text = to_json(r);
  const Record back = parse_record(text, "R");
  EXPECT_EQ(to_json(back), text);
  EXPECT_EQ(back.facts, r.facts);
  EXPECT_EQ(back.nics[1].numa, 1);
  EXPECT_EQ(to_json(parse_record(to_json(Record{}), "R")), to_json(Record{}));
}

TEST(Records, StrangeBytesDoNotBreakThem) {
  Record r = process(0);
  r.host = "nd\x01\xff\n";
  r.notes = {std::string("\x1b[31m") + std::string(5000, 'x')};
  EXPECT_NO_THROW((void)parse_record(to_json(r), "R"));
}

TEST(Records, BrokenOnesNameTheRank) {
  const std::string good = to_json(process(0));
  const auto with = [&](const std::string& rest) { return "{\"schema\":\"tapa-record/1\"," + rest + "}"; };
  EXPECT_EQ(message({}), "0 records, expected 1 to 1048576");
  EXPECT_EQ(message({good, "{}"}), "record of rank 1: $: key \"schema\" is missing");
  EXPECT_EQ(message({"{\"schema\":\"x\"}"}), "record of rank 0: $.schema: \"x\", expected \"tapa-record/1\"");
  EXPECT_EQ(message({with("\"cores\":-1")}),
            "record of rank 0: $.cores: -1, expected an integer from 0 to 1048576");
  EXPECT_EQ(message({with("\"cores\":1e99")}),
            "record of rank 0: $.cores: 1e+99, expected an integer from 0 to 1048576");
  EXPECT_EQ(message({with("\"nics\":[{\"name\":\"a\"}],\"near\":[1]")}),
            "record of rank 0: $.near[0]: 1, expected an integer from 0 to 0");
  EXPECT_EQ(message({with("\"nics\":[{\"name\":\"a\",\"bandwidth\":-5}]")}),
            "record of rank 0: $.nics[0].bandwidth: -5, expected a number of bytes per second above 0");
  EXPECT_EQ(message({with("\"gpu\":{}")}), "record of rank 0: $.gpu: key \"gpu\" is missing");
  EXPECT_EQ(message({with("\"host\":7")}),
            "record of rank 0: $.host: 7, expected text of 0 to 256 bytes without control characters");
  EXPECT_EQ(message({with("\"x\":7")}).substr(0, 37), "record of rank 0: $: unknown key \"x\",");
  EXPECT_EQ(message({std::string(70000, ' ')}), "record of rank 0: 70000 bytes, expected at most 65536");
}

TEST(Records, ThisProcess) {
  const Record r = parse_record(local_record(), "R");
  EXPECT_FALSE(r.host.empty());
  EXPECT_GT(r.cores, 0);
  EXPECT_FALSE(r.sources.empty());
  const Topology t = merge_records(std::vector<std::string>(3, local_record()));
  EXPECT_EQ(t.check(), "");
  EXPECT_EQ(t.nodes(), 1);
  EXPECT_EQ(&local_record(), &local_record());
}

}  // namespace
}  // namespace tapa
