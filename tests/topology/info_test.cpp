#include "info.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "topology/detect.hpp"
#include "topology/topology_file.hpp"

namespace tapa::info {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// Two nodes of two well-bound ranks each, two fast NICs: nothing to complain about.
std::vector<Record> healthy() {
  std::vector<Record> records;
  for (int r = 0; r < 4; ++r) {
    Record record;
    record.host = "nd" + std::to_string(r / 2);
    record.kernel = record.host;
    record.node = record.host;
    record.cores = 4;
    record.bound_cores = 1;
    record.cpus = std::to_string(r % 2);
    record.numa = r % 2;
    for (int n = 0; n < 2; ++n) {
      record.nics.push_back(
          {"mlx5_" + std::to_string(n), 0, 5e10, {}, "0000:0" + std::to_string(n) + ":00.0", "verbs", n});
    }
    record.near = {r % 2};
    record.sources = {{"hwloc", true, ""}};
    record.facts.huge_pages = "madvise";
    record.facts.ptrace_scope = 0;
    record.facts.shm_free = 1e10;
    records.push_back(record);
  }
  return records;
}

std::vector<std::string> kinds(const Topology& topology, const std::vector<Record>& records) {
  std::vector<std::string> all;
  for (const Hint& hint : find_hints(topology, records)) {
    EXPECT_FALSE(hint.text.empty());
    EXPECT_FALSE(hint.advice.empty());
    all.push_back(hint.kind);
  }
  return all;
}

TEST(Hints, NoneForAHealthyMachine) {
  EXPECT_THAT(kinds(merge_records(healthy()), healthy()), IsEmpty());
}

TEST(Hints, EachTroubleIsFound) {
  using Records = std::vector<Record>;
  const std::map<std::string, std::function<void(Records&)>> troubles = {
      {"unbound",
       [](Records& rs) {
         for (Record& r : rs) r.bound_cores = 0;
       }},
      {"oversubscribed",
       [](Records& rs) {
         for (Record& r : rs) r.cores = 1;
       }},
      {"same-core", [](Records& rs) { rs[1].cpus = rs[0].cpus; }},
      {"nic-rate",
       [](Records& rs) {
         for (Record& r : rs) r.nics[0].bandwidth.reset();
       }},
      {"virtual-nic",
       [](Records& rs) {
         for (Record& r : rs) r.nics[1].pci.clear();
       }},
      {"tcp",
       [](Records& rs) {
         for (Record& r : rs) r.nics[1].provider = "tcp";
       }},
      {"no-nic",
       [](Records& rs) {
         for (Record& r : rs) {
           r.nics.clear();
           r.near.clear();
         }
       }},
      {"gpu-unknown", [](Records& rs) { rs[2].facts.gpus = 8; }},
      {"small-shm", [](Records& rs) { rs[2].facts.shm_free = 64 << 20; }},
      {"ptrace-scope", [](Records& rs) { rs[2].facts.ptrace_scope = 1; }},
      {"huge-pages", [](Records& rs) { rs[2].facts.huge_pages = "never"; }},
      {"no-hwloc",
       [](Records& rs) {
         for (Record& r : rs) r.sources[0].used = false;
       }},
      {"environment", [](Records& rs) { rs[3].notes = {"TAPA_NIC_RATE=x"}; }},
  };
  for (const auto& [kind, spoil] : troubles) {
    Records records = healthy();
    spoil(records);
    EXPECT_THAT(kinds(merge_records(records), records), ElementsAre(kind));
  }
}

TEST(DeviceBuffers, OfAllRanksAndOfANodes) {
  std::vector<Record> records = healthy();
  DeviceFacts facts;
  facts.built = true;
  facts.most_ranks = 16;
  facts.most_joined = 512;
  const Settings settings;
  EXPECT_FALSE(device_buffers(merge_records(records), records, facts, settings));
  for (Record& r : records) r.facts.gpus = 1;
  const Topology topology = merge_records(records);
  const auto found = device_buffers(topology, records, facts, settings);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->world.way, DeviceWay::engine);
  EXPECT_EQ(found->node.way, DeviceWay::engine);
  EXPECT_THAT(as_text(topology, records, found, 9),
              HasSubstr("  all ranks       engine    the device engine serves these ranks, if a wire joins"));
  EXPECT_THAT(as_text(topology, records, found, 9),
              HasSubstr("  ranks of a node engine    the device engine"));
  const auto json = nlohmann::json::parse(as_json(topology, records, found));
  EXPECT_EQ(json["device_buffers"]["all_ranks"]["way"], "engine");
  EXPECT_EQ(json["device_buffers"]["node"]["way"], "engine");
  facts.most_joined = 2;
  EXPECT_EQ(device_buffers(topology, records, facts, settings)->world.way, DeviceWay::stage);
  facts.mpi_takes = true;
  EXPECT_EQ(device_buffers(topology, records, facts, settings)->world.way, DeviceWay::mpi);
}

TEST(Hints, Rails) {
  std::vector<Record> records = healthy();
  for (Record& r : records) r.near = {0};
  EXPECT_THAT(kinds(merge_records(records), records), ElementsAre("idle-nic", "far-nic"));
  records = healthy();
  records.push_back(records[3]);
  records.back().cpus = "3";
  EXPECT_THAT(kinds(merge_records(records), records), ElementsAre("uneven-rails", "unequal-nodes"));
}

TEST(Hints, MpiSeesOtherNodes) {
  Topology t = merge_records(healthy());
  t.sources.push_back({"mpi", false, "4 groups"});
  EXPECT_THAT(kinds(t, healthy()), ElementsAre("mpi-nodes"));
}

TEST(Hints, DescribedMachines) {
  EXPECT_THAT(kinds(load_topology("hgx-h100", 16), {}), IsEmpty());
  EXPECT_THAT(kinds(load_topology("aurora", 24), {}), ElementsAre("uneven-rails"));
  EXPECT_THAT(kinds(load_topology("polaris", 8), {}), ElementsAre("far-nic"));  // GPUs 0 and 2
  EXPECT_THAT(kinds(make_uniform_topology({2, 2}), {}), ElementsAre("nic-rate"));
}

TEST(Text, ShowsLevelsRanksRailsAndHints) {
  const std::string text = as_text(load_topology("aurora", 24), {}, std::nullopt, 1);
  EXPECT_THAT(text, HasSubstr("aurora: 24 ranks on 2 nodes"));
  EXPECT_THAT(text, HasSubstr("185 GB/s (1.48 Tbit/s)"));
  EXPECT_THAT(text, HasSubstr("rank 9      GPU 4 tile 1      -> cxi7"));
  EXPECT_THAT(text, Not(HasSubstr("rank 12")));
  EXPECT_THAT(text, HasSubstr("... and 1 node more"));
  EXPECT_THAT(text, HasSubstr("[uneven-rails]"));
  EXPECT_THAT(as_text(load_topology("aurora", 24), {}, std::nullopt, 2), HasSubstr("rank 12"));
  const std::string found = as_text(merge_records(healthy()), healthy(), std::nullopt, 9);
  EXPECT_THAT(found, HasSubstr("nd1: 2 ranks"));
  EXPECT_THAT(found, HasSubstr("rank 3      cpus 1            -> mlx5_1"));
}

TEST(Text, SaysWhichGpusAreJoinedByTheirHost) {
  Topology topology = make_uniform_topology({2, 2});
  topology.levels[0].name = "gpu";
  topology.levels[1].also = {"host"};
  topology.nic_level = 2;
  const std::string text = as_text(topology, {}, std::nullopt, 4);
  const std::string mark = "  (through memory of the host)\n";
  EXPECT_THAT(text, HasSubstr("\n  world = host "));
  EXPECT_NE(text.find(mark), std::string::npos);
  EXPECT_EQ(text.find(mark), text.rfind(mark)) << text;
}

TEST(Json, HoldsAFileAndTheHints) {
  const auto parsed = nlohmann::json::parse(as_json(merge_records(healthy()), healthy(), std::nullopt));
  EXPECT_EQ(parsed.at("schema"), "tapa-info/1");
  EXPECT_EQ(parsed.at("nodes").size(), 2u);
  EXPECT_EQ(parsed.at("nodes")[1].at("name"), "nd1");
  EXPECT_EQ(parsed.at("hints").size(), 0u);
  EXPECT_EQ(read_topology(parsed.at("topology").dump(), "F").nodes(), 2);
}

TEST(Svg, DrawsEveryRankAndRailOnce) {
  for (const char* name : {"aurora", "hgx-h100", "frontier"}) {
    const Topology t = load_topology(name, 24);
    const std::string svg = as_svg(t, {}, 100);
    const auto count = [&](const std::string& what) {
      std::size_t n = 0;
      for (std::size_t at = svg.find(what); at != std::string::npos; at = svg.find(what, at + 1)) ++n;
      return n;
    };
    EXPECT_EQ(count(">rank "), 24u);
    EXPECT_EQ(count("<line "), 24u);
    EXPECT_EQ(count("<svg "), 1u);
    EXPECT_THAT(as_svg(t, {}, 1), HasSubstr("nodes more"));
  }
  Topology t = make_uniform_topology({2, 2});
  t.name = "<&\">";
  EXPECT_THAT(as_svg(t, {}, 9), HasSubstr("&lt;&amp;&quot;&gt;"));
  t.nic_level = 0;  // every rank a node
  t.nics.clear();
  t.rails.clear();
  EXPECT_THAT(as_svg(t, {}, 9), HasSubstr(">rank 3<"));
}

TEST(Words, RatesAndTimes) {
  EXPECT_EQ(rate_text(12.5e6), "12.5 MB/s (100 Mbit/s)");
  EXPECT_EQ(rate_text(1.0), "1 B/s (8 bit/s)");
  EXPECT_EQ(rate_text(1e9), "1 GB/s (8 Gbit/s)");
  EXPECT_EQ(rate_text({}), "-");
  EXPECT_EQ(time_text(3e-6), "3 us");
  EXPECT_EQ(time_text(936e-9), "936 ns");
  EXPECT_EQ(time_text({}), "-");
  EXPECT_EQ(ranks_text({4}), "rank 4");
  EXPECT_EQ(ranks_text({0, 1, 2, 7}), "ranks 0-2,7");
}

TEST(Algorithms, EachHasAPredictedTime) {
  const std::string table = algorithms_table(make_uniform_topology({4, 4}), {16, 65536});
  for (const char* name : {"linear", "pairwise", "bruck", "tapa", "leaders"}) {
    EXPECT_THAT(table, HasSubstr("\n" + std::string(name) + ": "));
  }
  EXPECT_THAT(table, HasSubstr("<- fastest"));
}

TEST(Info, SaysWhatEarlierRunsHaveLeft) {
  const ResultsWhere here{"0.1.0", "MPI", "a processor", "0", 4};
  EXPECT_EQ(results_text({}, here, 100), "nothing is kept (TAPA_CACHE names no file)");
  EXPECT_EQ(results_text({"/f", "is no file", {}}, here, 100), "/f: not used: is no file");
  EXPECT_EQ(results_text({"/f", "", {}}, here, 100), "/f: empty");
  const SizeResult size{true, 64, true, 100, {{parse_choice("mpi"), 1e-5, 5, false}}};
  ResultsWhere other_job = here;
  other_job.job = 8;
  ResultsWhere other_mpi = here;
  other_mpi.mpi = "another";
  ResultsFile file{"/f", "", {}};
  for (const ResultsWhere& where : {here, other_job, other_mpi})
    file.content.shapes.push_back({where, 4, "0", {size, size}});
  EXPECT_EQ(results_text(file, here, 100),
            "/f: 6 sizes of 3 kinds of communicators, 4 from this machine with these libraries, 2 of these "
            "from jobs of 4 "
            "ranks with these settings");
  EXPECT_THAT(results_text(file, here, 200), HasSubstr("6 sizes of 3 kinds of communicators, 0 from"));
}

}  // namespace
}  // namespace tapa::info
