#include "topology/topology_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace tapa {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

std::string message(const std::string& text) {
  try {
    (void)read_topology(text, "F");
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

/// A good file of each kind, with one place replaced.
std::string machine(const std::string& from = "", const std::string& to = "") {
  std::string text = R"({"schema": "tapa-topology/1", "kind": "machine", "name": "m", "slots": 4, "copy": 5e9,
    "levels": [{"name": "tile", "groups": [[0, 1], [2, 3]], "bandwidth": 1e11}, {"name": "node", "latency": 1e-6},
               {"name": "rack", "nodes": 2}, {"name": "world", "message": 1e-7}],
    "nics": [{"name": "a"}, {"name": "b", "bandwidth": 1e9, "numa": 1}], "rails": [[0], [0], [1], [0, 1]],
    "devices": [{"name": "d0"}, {"name": "d1"}, {"name": "d2"}, {"name": "d3", "pci": "0000:01:00.0"}]})";
  if (!from.empty()) text.replace(text.find(from), from.size(), to);
  return text;
}

std::string ranks(const std::string& from = "", const std::string& to = "") {
  std::string text =
      R"({"schema": "tapa-topology/1", "kind": "ranks", "name": "r", "ranks": 5, "cores_per_rank": 0.5, "copy": 8e9,
    "levels": [{"name": "node", "groups": [[1, 3], [0, 2, 4]]}, {"name": "world", "bandwidth": 5e8, "links": 3}],
    "nic_level": "world", "nics": [{"name": "x", "node": 0}, {"name": "y", "node": 1}],
    "rails": [[1], [0], [1], [0], [1]]})";
  if (!from.empty()) text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(File, RanksKeepTheirPlaces) {
  const Topology t = read_topology(ranks(), "F");
  EXPECT_EQ(t.check(), "");
  EXPECT_EQ(t.name, "r");
  EXPECT_THAT(t.levels[0].group, ElementsAre(0, 1, 0, 1, 0));
  EXPECT_EQ(t.nic_level, 1);
  EXPECT_EQ(t.nics[0].node, 1);  // the file's first node has rank 1, so it is the second by first rank
  EXPECT_EQ(t.nics[1].node, 0);
  EXPECT_EQ(t.levels[1].link.bandwidth, 5e8);
  EXPECT_EQ(t.levels[1].link.links, 3);
  EXPECT_FALSE(t.levels[1].link.latency.has_value());
  EXPECT_EQ(t.cores_per_rank, 0.5);
  EXPECT_EQ(t.copy, 8e9);
  ASSERT_EQ(t.sources.size(), 1u);
  EXPECT_EQ(t.sources[0].detail, "F");
}

TEST(File, AMachineIsOneFullNode) {
  const Topology t = read_topology(machine(), "F");
  EXPECT_EQ(t.check(), "");
  EXPECT_EQ(t.ranks, 4);
  EXPECT_EQ(t.nic_level, 2);
  EXPECT_EQ(t.find_level("node"), 1);
  EXPECT_EQ(t.levels[1].link.latency, 1e-6);
  EXPECT_EQ(t.devices[3].pci, "0000:01:00.0");
  EXPECT_THAT(t.rails[3], ElementsAre(0, 1));
}

TEST(File, WriteAndReadGiveTheSame) {
  std::vector<Topology> all = {read_topology(ranks(), "F"),
                               read_topology(machine(), "F"),
                               make_uniform_topology({7}),
                               make_uniform_topology({3, 2, 2}),
                               load_topology("aurora", 30, Placement::round_robin),
                               load_topology("cpu-2socket", 60)};
  for (const Topology& t : all) {
    const std::string text = write_topology(t);
    const Topology back = read_topology(text, "F");
    EXPECT_EQ(write_topology(back), text);
    EXPECT_EQ(back.ranks, t.ranks);
    EXPECT_EQ(back.nic_level, t.nic_level);
    EXPECT_EQ(back.rails, t.rails);
    ASSERT_EQ(back.levels.size(), t.levels.size());
    for (std::size_t l = 0; l < t.levels.size(); ++l) {
      EXPECT_EQ(back.levels[l].group, t.levels[l].group);
      EXPECT_EQ(back.levels[l].also, t.levels[l].also);
      EXPECT_EQ(back.levels[l].link.bandwidth, t.levels[l].link.bandwidth);
    }
    ASSERT_EQ(back.nics.size(), t.nics.size());
    for (std::size_t n = 0; n < t.nics.size(); ++n) EXPECT_EQ(back.nics[n].node, t.nics[n].node);
  }
}

TEST(File, WriteSurvivesBytesThatAreNotUtf8) {
  Topology t = make_uniform_topology({2, 2});
  t.nics[0].name = "nic\xff";
  EXPECT_NO_THROW((void)read_topology(write_topology(t), "F"));
}

struct Broken {
  std::string text;
  std::string error;
};

TEST(File, BrokenFilesOfEitherKind) {
  const Broken cases[] = {
      {"",
       "F: not JSON: parse error at line 1, column 1: syntax error while parsing value - unexpected end of "
       "input; "
       "expected '[', '{', or a literal"},
      {"[]", "F: $: an array of 0, expected an object"},
      {"{}", "F: $: key \"schema\" is missing"},
      {R"({"schema": 1})", "F: $.schema: 1, expected text of 1 to 256 bytes without control characters"},
      {R"({"schema": "tapa-topology/2"})", "F: $.schema: \"tapa-topology/2\", expected \"tapa-topology/1\""},
      {R"({"schema": "tapa-topology/1"})", "F: $: key \"kind\" is missing"},
      {R"({"schema": "tapa-topology/1", "kind": "node"})",
       "F: $.kind: \"node\", expected \"machine\" or \"ranks\""},
      {R"({"name": "a", "name": "b"})", "F: key \"name\" is used twice in one object"},
      {std::string(17, '['), "F: nested deeper than 16 levels"},
      {std::string(100000, '['), "F: nested deeper than 16 levels"},
  };
  for (const Broken& c : cases) EXPECT_EQ(message(c.text), c.error);
  EXPECT_THAT(message("{\"schema\": \"\xff\"}"), StartsWith("F: not JSON: parse error at line 1, column 13"));
  EXPECT_EQ(message(std::string(max_topology_bytes + 1, ' ')),
            "F: 67108865 bytes, expected at most 67108864");
}

TEST(File, BrokenMachines) {
  const std::string name = "a name of 1 to 32 letters, digits, '_', '-' or '.' that starts with a letter";
  const Broken cases[] = {
      {machine("\"name\": \"m\",", ""), "F: $: key \"name\" is missing"},
      {machine("\"m\"", "\"m m\""), "F: $.name: \"m m\", expected " + name},
      {machine("\"slots\": 4", "\"slots\": 0"), "F: $.slots: 0, expected an integer from 1 to 4096"},
      {machine("\"slots\": 4", "\"slots\": 1000000000"),
       "F: $.slots: 1000000000, expected an integer from 1 to 4096"},
      {machine("\"slots\": 4", "\"slots\": 18446744073709551615"),
       "F: $.slots: 18446744073709551615, expected an integer from 1 to 4096"},
      {machine("\"slots\": 4", "\"slots\": 4.0"), "F: $.slots: 4.0, expected an integer from 1 to 4096"},
      {machine("\"slots\"", "\"slot\""),
       "F: $: unknown key \"slot\", expected one of schema, kind, name, description, slots, levels, nics, "
       "rails, devices, copy"},
      {machine("[[0, 1], [2, 3]]", "[[0, 1], [2, 4]]"),
       "F: $.levels[0].groups[1][1]: 4, expected an integer from 0 to 3"},
      {machine("[[0, 1], [2, 3]]", "[[0, 1], [2, 1]]"),
       "F: $.levels[0].groups[1][1]: 1, expected every one of the 4 slots once"},
      {machine("[[0, 1], [2, 3]]", "[[0, 1], [2]]"),
       "F: $.levels[0].groups: lists no group for 3 of the 4 slots"},
      {machine("[[0, 1], [2, 3]]", "[[0, 1, 2, 3], []]"),
       "F: $.levels[0].groups[1]: an array of 0, expected an array of 1 to 4 slots"},
      {machine("[[0, 1], [2, 3]]", "[]"),
       "F: $.levels[0].groups: an array of 0, expected an array of 1 to 4 groups"},
      {machine("[[0, 1], [2, 3]]", "7"), "F: $.levels[0].groups: 7, expected an array of 1 to 4 groups"},
      {machine("\"bandwidth\": 1e11", "\"bandwidth\": 0"),
       "F: $.levels[0].bandwidth: 0, expected a number of bytes per second above 0"},
      {machine("\"bandwidth\": 1e11", "\"bandwidth\": \"fast\""),
       "F: $.levels[0].bandwidth: \"fast\", expected a number of bytes per second above 0"},
      {machine("1e-6", "-1e-6"), "F: $.levels[1].latency: -1e-06, expected a number of seconds above 0"},
      {machine("\"node\"", "\"nodes\""), "F: $.levels[1]: key \"groups\" is missing"},
      {machine("\"tile\"", "\"world\""),
       "F: $.levels[0].name: \"world\", expected \"world\" as the last level and nowhere else"},
      {machine("\"world\"", "\"all\""),
       "F: $.levels[3].name: \"all\", expected \"world\" as the last level and nowhere else"},
      {machine("\"rack\"", "\"tile\""),
       "F: $.levels[2].name: \"tile\", expected a name that no other level has"},
      {machine("\"nodes\": 2", "\"nodes\": 1"),
       "F: $.levels[2].nodes: 1, expected an integer from 2 to 1048576"},
      {machine(", \"nodes\": 2", ""), "F: $.levels[2]: key \"nodes\" is missing"},
      {machine("\"message\": 1e-7", "\"nodes\": 4"),
       "F: $.levels[3].nodes: 4, expected no number of nodes in the world"},
      {machine("{\"name\": \"world\"", "{\"name\": \"row\", \"nodes\": 3}, {\"name\": \"world\""),
       "F: $.levels[3].nodes: 3, expected a multiple of 2, the level before"},
      {machine("\"latency\": 1e-6", "\"groups\": [[0,1,2,3]]"),
       "F: $.levels[1].groups: an array of 1, expected no groups in level \"node\": it is all slots"},
      {machine("\"latency\": 1e-6", "\"nodes\": 2"),
       "F: $.levels[1].nodes: 2, expected no number of nodes in a level up to \"node\""},
      {machine("{\"name\": \"node\"", "{\"name\": \"s\", \"groups\": [[0], [1, 2, 3]]}, {\"name\": \"node\""),
       "F: $.levels[0].groups[0]: slot 1 lies in another group of level s than the slots before it"},
      {machine("\"rails\": [[0], [0], [1], [0, 1]]", "\"rails\": [[0], [0], [1]]"),
       "F: $.rails: an array of 3, expected an array of 4 lists of NICs, one for each of the slots"},
      {machine("[0, 1]],", "[0, 2]],"), "F: $.rails[3][1]: 2, expected an integer from 0 to 1"},
      {machine("[0, 1]],", "[1, 1]],"), "F: $.rails[3][1]: 1, expected each NIC once"},
      {machine("\"rails\": [[0], [0], [1], [0, 1]],", ""), "F: $: key \"rails\" is missing"},
      {machine("\"nics\": [{\"name\": \"a\"}, {\"name\": \"b\", \"bandwidth\": 1e9, \"numa\": 1}],", ""),
       "F: $.rails: an array of 4, expected no rails where there are no nics"},
      {machine("{\"name\": \"a\"}", "{}"), "F: $.nics[0]: key \"name\" is missing"},
      {machine("{\"name\": \"a\"}", "{\"name\": \"\"}"),
       "F: $.nics[0].name: \"\", expected text of 1 to 64 bytes without control characters"},
      {machine("{\"name\": \"a\"}", "{\"name\": \"a\\u001b[2J\"}"),
       "F: $.nics[0].name: \"a\\u001b[2J\", expected text of 1 to 64 bytes without control characters"},
      {machine("{\"name\": \"a\"}", "{\"name\": \"a\", \"rate\\u0007\": 1}"),
       "F: $.nics[0]: unknown key \"rate\\u0007\", expected one of name, bandwidth, message, pci, provider, "
       "numa"},
      {machine("{\"name\": \"a\"}", "{\"name\": \"a\", \"source\": 1}"),
       "F: $.nics[0].source: 1, expected a string"},
      {machine("{\"name\": \"d0\"}, ", ""),
       "F: $.devices: an array of 3, expected an array of 4 devices, one for each of the slots"},
      {machine("{\"name\": \"d0\"}", "\"d0\""), "F: $.devices[0]: \"d0\", expected an object"},
  };
  for (const Broken& c : cases) EXPECT_EQ(message(c.text), c.error);
}

TEST(File, BrokenRanks) {
  const Broken cases[] = {
      {ranks("\"ranks\": 5", "\"ranks\": 0"), "F: $.ranks: 0, expected an integer from 1 to 1048576"},
      {ranks("\"ranks\": 5", "\"ranks\": 1e3"), "F: $.ranks: 1000.0, expected an integer from 1 to 1048576"},
      {ranks("\"ranks\": 5", "\"ranks\": 6"), "F: $.levels[0].groups: lists no group for 5 of the 6 ranks"},
      {ranks("\"node\"", "\"world\""), "F: $: level 1 (world): the name is used twice"},
      {ranks("\"bandwidth\": 5e8, \"links\": 3", "\"groups\": [[0, 1, 2], [3, 4]]"),
       "F: $: group 1 of level node lies in groups 0 and 1 of level world"},
      {ranks("\"bandwidth\": 5e8, \"links\": 3", "\"groups\": [[0, 2, 4], [1, 3]]"),
       "F: $: the slowest level (world) has 2 groups, expected 1"},
      {ranks("\"nic_level\": \"world\"", "\"nic_level\": \"rack\""),
       "F: $.nic_level: \"rack\", expected one of the levels node, world"},
      {ranks("\"node\": 1", "\"node\": 2"), "F: $.nics[1].node: 2, expected an integer from 0 to 1"},
      {ranks(", \"node\": 1", ""), "F: $.nics[1]: key \"node\" is missing"},
      {ranks("[[1], [0], [1], [0], [1]]", "[[0], [0], [1], [0], [1]]"),
       "F: $: rank 0 of node 0 uses NIC 0 of node 1"},
      {ranks("[[1], [0], [1], [0], [1]]", "[[1], [0], [1], [0]]"),
       "F: $.rails: an array of 4, expected an array of 5 lists of NICs, one for each of the ranks"},
      {ranks("8e9", "0"), "F: $.copy: 0, expected a number of bytes per second above 0"},
      {ranks("0.5", "-1"), "F: $.cores_per_rank: -1, expected a number of cores above 0"},
      {ranks("\"levels\": [", "\"levels\": [{\"name\": \"tile\", \"also\": \"x\"}, "),
       "F: $.levels[0].also: \"x\", expected an array of 0 to 16 names"},
  };
  for (const Broken& c : cases) EXPECT_EQ(message(c.text), c.error);
}

TEST(File, AMachineIsAskedForByName) {
  try {
    (void)read_machine(ranks(), "F");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "F: $.kind: \"ranks\", expected \"machine\"");
  }
}

}  // namespace
}  // namespace tapa
