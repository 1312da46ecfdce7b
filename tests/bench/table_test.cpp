#include "common/table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tapa::bench {
namespace {

using ::testing::HasSubstr;

// The lines of the OSU micro-benchmarks 7.x, character for character.
TEST(Table, LatencyAsOsuPrintsIt) {
  const LatencyRow row{65536, 95.19, 90, 100.123, 1000, true, 0};
  EXPECT_EQ(latency_header({}), "# Size       Avg Latency(us)\n");
  EXPECT_EQ(latency_line(row, {}), "65536                  95.19\n");
  EXPECT_EQ(latency_header({.full = true}),
            "# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations\n");
  EXPECT_EQ(latency_line(row, {.full = true}),
            "65536                  95.19             90.00            100.12        1000\n");
  EXPECT_EQ(latency_header({.validation = true}), "# Size       Avg Latency(us)        Validation\n");
  EXPECT_EQ(latency_line(row, {.validation = true}), "65536                  95.19              Pass\n");
}

TEST(Table, WrongDataSaysFail) {
  LatencyRow row{1, 1, 1, 1, 1, false, 0};
  EXPECT_THAT(latency_line(row, {.validation = true}), HasSubstr("Fail"));
}

TEST(Table, OverlapAsOsuPrintsIt) {
  const OverlapRow row{8, 21.5, 10, 1, 2, 3, 11, 10.5, 11.5, 95, true};
  EXPECT_EQ(overlap_header({}),
            "# Size           Overall(us)       Compute(us)    Pure Comm.(us)        Overlap(%)\n");
  EXPECT_EQ(overlap_line(row, {}),
            "8                      21.50             10.00             11.00             95.00\n");
  EXPECT_EQ(overlap_header({.full = true}),
            "# Size           Overall(us)       Compute(us)    Coll. Init(us)      MPI_Test(us)      "
            "MPI_Wait(us)    "
            "Pure Comm.(us)     Min Comm.(us)     Max Comm.(us)        Overlap(%)\n");
  EXPECT_EQ(overlap_line(row, {.full = true}),
            "8                      21.50             10.00              1.00              2.00              "
            "3.00    "
            "         11.00             10.50             11.50             95.00\n");
}

VersusRow a_row() {
  VersusRow row;
  row.bytes = 64;
  row.plan = "tapa:split=node";
  row.candidates = {{"TAPA", true, summarize({2e-6, 2e-6, 2e-6}), {}},
                    {"linear", true, summarize({3e-6}), {}},
                    {"default", false, summarize({6e-6}), {}},
                    {"pairwise", false, summarize({5e-6, 4e-6, 6e-6}), {}}};
  row.nic_bound = 1e-6;
  return row;
}

TEST(Table, RatioIsTheBestOfMpiOverOurChoice) {
  const VersusRow row = a_row();
  EXPECT_EQ(row.ours().name, "TAPA");
  EXPECT_EQ(row.best_of_mpi().name, "pairwise");
  EXPECT_DOUBLE_EQ(row.ratio(), 2.5);
  const std::string text = versus_line(row, {.nic_bound = true});
  EXPECT_EQ(text,
            "64                  2.00     0.0          5.00    20.0    2.50            1.00  pairwise        "
            "tapa:split=node\n"
            "#   plan            3.00     0.0  linear\n");
}

TEST(Table, JsonHasWhatScriptsRead) {
  Machine machine;
  machine.host = "h";
  machine.ranks = 2;
  machine.nodes = 1;
  machine.node_of = {0, 0};
  const auto out = nlohmann::json::parse(versus_json("tapa_alltoall", machine, {a_row()}));
  EXPECT_EQ(out.at("machine").at("ranks"), 2);
  const auto& row = out.at("rows").at(0);
  EXPECT_EQ(row.at("bytes"), 64);
  EXPECT_DOUBLE_EQ(row.at("tapa_us"), 2);
  EXPECT_DOUBLE_EQ(row.at("mpi_us"), 5);
  EXPECT_DOUBLE_EQ(row.at("ratio"), 2.5);
  EXPECT_DOUBLE_EQ(row.at("nic_bound_us"), 1);
  EXPECT_EQ(row.at("plan"), "tapa:split=node");
  EXPECT_EQ(row.at("mpi_algorithm"), "pairwise");
  EXPECT_EQ(row.at("candidates").size(), 4U);
  EXPECT_EQ(nlohmann::json::parse(versus_json("x", machine, {})).at("rows").size(), 0U);
}

}  // namespace
}  // namespace tapa::bench
