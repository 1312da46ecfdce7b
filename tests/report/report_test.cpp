#include "report/report.hpp"

#include <gtest/gtest.h>

#include "report_row.hpp"

namespace tapa {
namespace {

TEST(Report, CountsByFunctionSizeClassAndPlan) {
  Report report;
  report.count("TAPA_Alltoall", 1000, "linear", {}, 8000, 0.25, std::nullopt);
  report.count("TAPA_Alltoall", 513, "linear", {}, 4104, 0.5, Sample{0.5, 1.0});
  report.count("TAPA_Alltoall", 1024, "linear", {}, 8192, 1, std::nullopt);
  report.count("TAPA_Alltoall", 513, "bruck", {}, 4104, 1, std::nullopt);
  report.count("TAPA_Alltoallv", 513, "linear", {}, 4104, 1, std::nullopt);
  report.count("TAPA_Alltoallv", 0, "linear", {}, 0, 1, std::nullopt);
  const auto rows = report.rows("name", 2, 8);
  ASSERT_EQ(rows.size(), 5U);
  EXPECT_EQ(rows[0].communicator, "name");
  EXPECT_EQ(rows[0].rank, 2);
  EXPECT_EQ(rows[0].ranks, 8);
  EXPECT_EQ(rows[0].size_class, 512U);
  EXPECT_EQ(rows[0].calls, 2U);
  EXPECT_EQ(rows[0].bytes, 12104U);
  EXPECT_DOUBLE_EQ(rows[0].seconds, 0.75);
  ASSERT_EQ(rows[0].samples.size(), 1U);
  EXPECT_DOUBLE_EQ(rows[0].samples[0].mpi, 1.0);
  EXPECT_EQ(rows[1].size_class, 1024U);
  EXPECT_EQ(rows[2].plan, "bruck");
  EXPECT_EQ(rows[4].size_class, 0U);
}

TEST(Report, ForwardedCallsAreApartByReason) {
  Report report;
  report.count("TAPA_Alltoall", 8, "mpi", "slower", 8, 1, std::nullopt);
  report.count("TAPA_Alltoall", 8, "mpi", "", 8, 1, std::nullopt);
  report.count("TAPA_Alltoall", 8, "mpi", "slower", 8, 1, std::nullopt);
  const auto rows = report.rows("", 0, 2);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].forwarded, "slower");
  EXPECT_EQ(rows[0].calls, 2U);
}

TEST(Report, OfCommunicatorsThatDifferInNumbersOnlyAFewAreToldApart) {
  ReportRows rows;
  for (int i = 0; i < 1000; ++i) rows.add(row("ranks " + std::to_string(i) + " of the world", 0, 3, 32));
  rows.add(row("other", 0, 3, 32));
  ASSERT_EQ(rows.rows().size(), ReportRows::kMostAlike + 2);
  EXPECT_EQ(rows.rows()[ReportRows::kMostAlike].communicator, "ranks * of the world");
  EXPECT_EQ(rows.rows()[ReportRows::kMostAlike].calls, 4 * (1000 - ReportRows::kMostAlike));
  EXPECT_EQ(rows.rows().back().communicator, "other");
}

TEST(Report, SamplesEverMoreSeldom) {
  Report report;
  std::vector<int> sampled;
  for (int call = 1; call <= 1100; ++call) {
    const bool next = report.sample_is_next("TAPA_Alltoall", 4100, "linear");
    const bool due = report.sample_due("TAPA_Alltoall", 4100, "linear");
    EXPECT_EQ(next, due);
    if (due) sampled.push_back(call);
    if (call <= 3) {
      EXPECT_FALSE(report.sample_due("TAPA_Alltoall", 4100, "bruck"));
    }
    // What one rank alone counts, of sizes that only it knows, decides nothing.
    if (call % 3 == 0) report.count("TAPA_Alltoall", 4100, "linear", {}, 400, 0.1, std::nullopt);
  }
  EXPECT_EQ(sampled, (std::vector<int>{64, 128, 192, 256, 512, 1024}));
  EXPECT_EQ(report.rows("", 0, 1).size(), 1U) << "calls that were asked about and not counted have failed";
}

TEST(Report, CountsSoManyKindsApart) {
  KindCounts counts;
  const std::size_t apart = KindCounts::kKinds - 1;
  for (std::size_t call = 1; call <= 3; ++call) {
    for (std::size_t kind = 0; kind < apart + 5; ++kind) {
      const std::string plan = "plan " + std::to_string(kind);
      const std::size_t before = kind < apart ? call - 1 : (call - 1) * 5 + (kind - apart);
      EXPECT_EQ(counts.calls("TAPA_Alltoall", 64, plan), call == 1 && kind < apart ? 0 : before) << kind;
      EXPECT_EQ(counts.count("TAPA_Alltoall", 64, plan), before + 1) << kind;
    }
  }
}

TEST(Report, SamplesShortBlocksLater) {
  Report report;
  int first = 0;
  for (int call = 1; first == 0 && call < 1000; ++call)
    if (report.sample_due("TAPA_Alltoall", 256, "memory")) first = call;
  EXPECT_EQ(first, 512);
}

// Calls of 2 s each: whatever their number is, the sum is that of all, but for those around the last.
TEST(Report, TimesOneInManyCalls) {
  for (const int calls : {1, 20, 63, 64, 100, 127, 500, 10000}) {
    Report report;
    std::uint64_t timed = 0;
    for (int call = 0; call < calls; ++call) {
      const std::uint64_t each = report.begin("TAPA_Alltoall", 256, "memory", 1024);
      if (each == 0) continue;
      ++timed;
      report.add_time("TAPA_Alltoall", 256, "memory", 2.0 * static_cast<double>(each));
    }
    const auto rows = report.rows("", 0, 4);
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].calls, static_cast<std::uint64_t>(calls));
    EXPECT_EQ(rows[0].bytes, 1024 * rows[0].calls);
    EXPECT_EQ(rows[0].calls - rows[0].untimed, timed);
    EXPECT_NEAR(rows[0].seconds, 2.0 * calls, calls < 64 ? 0 : 8) << calls;
    EXPECT_TRUE(calls < 10000 || timed < 1400) << timed;
  }
}

TEST(Report, KeepsTheRowsOfCommunicatorsThatEnded) {
  keep_rows({row("gone", 0, 3, 32)});
  for (int i = 0; i < 1000; ++i) keep_rows({row("again", 0, 3, 32), row("again", 1, 3, 32)});
  const auto rows = kept_rows();
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].communicator, "gone");
  EXPECT_EQ(rows[1].calls, 4000U);
  EXPECT_EQ(rows[2].rank, 1);
}

}  // namespace
}  // namespace tapa
