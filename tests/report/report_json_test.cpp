#include "report/report_json.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report_row.hpp"

namespace tapa {
namespace {

TEST(ReportJson, SaysWhatTheTextSays) {
  ReportRow first = row("a \"name\"\xff", 0, 8, 64);
  first.samples = {{0.5, 1.5}};
  ReportHead head{8, 10, "MPI_Init", 3, 0.5, ""};
  head.lateness = {20, 3, 1, {{5, 12, 16, 0.25}}};
  head.order = OrderAdvice{RankOrder::consecutive, {100, 2}, {50, 1}, 4};
  head.levels = {{"node", 12}, {"world", 0}};
  const std::string text = report_json({first, row("columns", 1, 2, 8), first}, head);
  EXPECT_EQ(text.find('\n'), text.size() - 1) << "one line";
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["format"], "tapa-report/1");
  EXPECT_EQ(json["job"]["ranks"], 8);
  EXPECT_EQ(json["job"]["waiting"]["calls"], 20);
  EXPECT_EQ(json["job"]["waiting"]["waiting"], 3);
  EXPECT_EQ(json["job"]["waiting"]["transfer"], 1);
  EXPECT_EQ(json["job"]["waiting"]["late"][0]["rank"], 5);
  EXPECT_EQ(json["job"]["waiting"]["late"][0]["waited"], 0.25);
  EXPECT_EQ(json["job"]["levels"],
            nlohmann::json::parse(R"([{"name": "node", "bytes": 12.0}, {"name": "world", "bytes": 0.0}])"));
  EXPECT_EQ(json["job"]["rank_order"]["order"], "consecutive");
  EXPECT_EQ(json["job"]["rank_order"]["launch"]["mpich"], "-ppn 4");
  EXPECT_EQ(json["job"]["rank_order"]["then"]["bytes"], 50);
  ASSERT_EQ(json["rows"].size(), 2U);
  EXPECT_EQ(json["rows"][0]["calls"], 8) << "the same rows are one";
  EXPECT_EQ(json["rows"][0]["samples"][1]["mpi"], 1.5);
}

TEST(ReportJson, OfOtherRanksIsWhatTheyAreRank0Of) {
  EXPECT_EQ(report_json({row("columns", 1, 2, 8)}, std::nullopt), "");
  const auto json = nlohmann::json::parse(report_json({row("a", 0, 2, 8), row("b", 1, 2, 8)}, std::nullopt));
  ASSERT_EQ(json["rows"].size(), 1U);
  EXPECT_EQ(json["rows"][0]["communicator"], "a");
  EXPECT_FALSE(json.contains("job"));
}

}  // namespace
}  // namespace tapa
