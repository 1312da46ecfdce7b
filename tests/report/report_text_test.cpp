#include "report/report_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "report_row.hpp"

namespace tapa {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

ReportRow forwarded(const std::string& function, std::uint64_t calls, const std::string& reason) {
  ReportRow r = row("world", 0, 8, 64);
  r.function = function;
  r.calls = calls;
  r.plan = "";
  r.forwarded = reason;
  return r;
}

const ReportHead kHead{8, 10, "MPI_Init", 3, 0.0125, ""};

TEST(ReportText, NamesCallsAsTheProgramMadeThem) {
  EXPECT_EQ(name_in_program("TAPA_Alltoallv", true, true), "MPI_Alltoallv");
  EXPECT_EQ(name_in_program("TAPA_Ialltoall", true, true), "MPI_Ialltoall");
  EXPECT_EQ(name_in_program("TAPA_Alltoall_init", true, true), "MPIX_Alltoall_init");
  EXPECT_EQ(name_in_program("TAPA_Alltoallw_init_c", true, false), "MPI_Alltoallw_init_c");
  EXPECT_EQ(name_in_program("TAPA_Alltoall", false, true), "TAPA_Alltoall");
}

TEST(ReportText, SaysWhatEarlierRunsFound) {
  ReportHead head = kHead;
  head.results = "2 sizes";
  const std::vector<ReportRow> rows{forwarded("MPI_Alltoall", 1, "one rank")};
  EXPECT_THAT(format_report(rows, head), HasSubstr("ms\n  cache       2 sizes\n"));
  EXPECT_THAT(format_report(rows, kHead), Not(HasSubstr("  cache ")));
}

TEST(ReportText, SaysWhoWaitsForWhom) {
  ReportHead head = kHead;
  const std::vector<ReportRow> rows{forwarded("MPI_Alltoall", 1, "one rank")};
  head.lateness = {20, 3, 1, {{5, 12, 16, 0.0025}, {2, 9, 16, 0.001}}};
  EXPECT_THAT(
      format_report(rows, head),
      HasSubstr(
          "  waiting     for late ranks 75 % of the time in blocking calls, transfer 25 %, by 20 calls that "
          "all "
          "ranks timed\n"
          "  late        rank 5 was the last in 12 of 16 calls in which ranks waited, 2.5 ms behind the "
          "others\n"
          "  late        rank 2 was the last in 9 of 16 calls"));
  head.lateness.transfer = 97;
  EXPECT_THAT(format_report(rows, head), HasSubstr("late ranks 3 % of"));
  EXPECT_THAT(format_report(rows, head), Not(HasSubstr("  late  "))) << "that hardly matters";
  head.lateness.transfer = 1;
  head.lateness.late.resize(10);
  EXPECT_THAT(format_report(rows, head), HasSubstr("              and 2 ranks more\n"));
  head.lateness.calls = 7;
  EXPECT_THAT(format_report(rows, head), Not(HasSubstr("waiting")));
}

TEST(ReportText, SaysWhichOrderOfTheRanksWouldBeBetter) {
  ReportHead head = kHead;
  const std::vector<ReportRow> rows{forwarded("MPI_Alltoall", 1, "one rank")};
  EXPECT_THAT(format_report(rows, head), Not(HasSubstr("rank order")));
  head.order = OrderAdvice{RankOrder::alternating, {6e9, 4.8}, {3e9, 2.4}};
  EXPECT_THAT(format_report(rows, head),
              HasSubstr("  rank order  6000.000 MB into, or out of, the busiest node; 3000.000 MB with ranks "
                        "on the nodes in turn: 2.400 s less at its NICs\n"
                        "              mpirun --map-by node (Open MPI), mpiexec -ppn 1 (MPICH, Intel MPI), "
                        "srun --distribution=cyclic\n"));
  head.order->order = RankOrder::consecutive;
  EXPECT_THAT(format_report(rows, head),
              HasSubstr("with consecutive ranks on each node: 2.400 s less at its NICs\n"
                        "              mpirun --map-by slot (Open MPI), srun --distribution=block\n"));
}

TEST(ReportText, SaysWhichLevelsBytesCross) {
  ReportHead head = kHead;
  const std::vector<ReportRow> rows{forwarded("MPI_Alltoall", 1, "one rank")};
  EXPECT_THAT(format_report(rows, head), Not(HasSubstr("  sent ")));
  head.levels = {{"gpu", 0}, {"node", 12e6}, {"world", 3.5e6}};
  EXPECT_THAT(format_report(rows, head), HasSubstr("  sent        12.000 MB by node, 3.500 MB by world\n"));
}

TEST(ReportText, TellsCommunicatorsWithoutNamesByTheirRanks) {
  EXPECT_EQ(describe_ranks(std::array{0, 1, 2, 3}, 4), "all ranks of MPI_COMM_WORLD");
  EXPECT_EQ(describe_ranks(std::array{0, 1, 2, 3}, 8), "ranks 0-3 of MPI_COMM_WORLD");
  EXPECT_EQ(describe_ranks(std::array{1, 5, 9, 13}, 16), "ranks 1, 5, ... 13 of MPI_COMM_WORLD");
  EXPECT_EQ(describe_ranks(std::array{3, 2, 1, 0}, 4), "ranks 3, 2, ... 0 of MPI_COMM_WORLD");
  EXPECT_EQ(describe_ranks(std::array{0, 4}, 8), "ranks 0, 4 of MPI_COMM_WORLD");
  EXPECT_EQ(describe_ranks(std::array{7}, 8), "rank 7 of MPI_COMM_WORLD");
  EXPECT_EQ(describe_ranks(std::array{0, 1, 2, 4, 5, 6, 8, 9, 10}, 16),
            "ranks 0, 1, 2, 4, 5, 6, 8, 9, ... of MPI_COMM_WORLD");
}

TEST(ReportText, HeadSaysWhatAllCallsComeTo) {
  ReportRow taken = row("world", 0, 8, 64);
  taken.calls = 90;
  taken.seconds = 0.5;
  taken.samples = {{0.001, 0.003}, {0.002, 0.004}, {0.001, 0.5}};
  ReportRow other = row("columns", 1, 2, 64);  // of another communicator's rank 1
  other.function = "MPI_Ialltoallv";
  other.calls = 6;
  other.seconds = 0.25;
  const std::string text = format_report(
      {taken, other, forwarded("MPI_Alltoall", 1, "one rank"), forwarded("MPI_Alltoallv", 3, "slow")}, kHead);
  EXPECT_THAT(
      text, StartsWith("tapa report: 100 all-to-alls, as rank 0 of 8 saw them\n"
                       "  taken       96 (96.0 %)\n"
                       "  forwarded   4 (4.0 %): 3 (slow), 1 (one rank)\n"
                       "  time        0.508 s in blocking calls, 5.1 % of the 10.000 s since MPI_Init\n"
                       "              0.250 s from start to completion of the others\n"
                       "  against MPI about 0.270 s saved, 4.00x as fast, from 3 samples of calls that took "
                       "66 % of the time\n"
                       "  set-up      3 communicators, 12.5 ms: with it about 0.258 s saved\n"));
  EXPECT_THAT(text, Not(HasSubstr("columns")));
}

TEST(ReportText, HeadComparesOnlyWithEnoughSamples) {
  ReportRow few = row("world", 0, 8, 64);
  few.samples = {{0.001, 0.003}, {0.002, 0.004}};
  EXPECT_THAT(
      format_report({few}, kHead),
      HasSubstr("against MPI not estimated: no kind of call has 3 samples, made in 1536 calls of short "
                "blocks, 192 of long ones\n"));
  few.samples.push_back({0.006, 0.003});
  EXPECT_THAT(format_report({few}, kHead), HasSubstr("about 0.004 s saved, 1.50x as fast"));
  few.samples = {{4, 2}, {4, 2}, {4, 2}};
  EXPECT_THAT(format_report({few}, kHead), HasSubstr("about 8.000 s lost, 0.50x as fast"));
  EXPECT_THAT(format_report({forwarded("MPI_Alltoall", 1, "one rank")}, kHead),
              Not(HasSubstr("against MPI")));
}

TEST(ReportText, HeadSaysHowManyCallsWereTimed) {
  ReportRow calls = row("world", 0, 8, 64);
  EXPECT_THAT(format_report({calls}, kHead), Not(HasSubstr("of the calls, of each kind")));
  calls.calls = 1000;
  calls.untimed = 800;
  EXPECT_THAT(
      format_report({calls}, kHead),
      HasSubstr("              by 200 of the calls, of each kind the first 64 and then one in 2 to 8\n"));
}

TEST(ReportText, HeadWithoutCalls) {
  EXPECT_EQ(format_report({}, kHead), "tapa report: no all-to-all on rank 0 of 8\n");
  EXPECT_EQ(format_report({}, std::nullopt), "");
}

TEST(ReportText, TablesAreOfCommunicatorsOfWhichThisIsRankZero) {
  auto sampled = row("fft rows", 0, 4, 512);
  sampled.samples = {{0.0005, 0.0015}, {0.0004, 0.0014}, {0.0009, 0.0099}};
  auto few = row("fft rows", 0, 4, 1024);
  few.samples = {{0.0005, 0.0015}};
  const std::string text =
      format_report({row("world", 0, 8, 64), row("other", 1, 8, 64), sampled, few}, std::nullopt);
  EXPECT_THAT(text, HasSubstr("tapa report: world, 8 ranks, as rank 0 saw it"));
  EXPECT_THAT(text, HasSubstr("tapa report: fft rows, 4 ranks"));
  EXPECT_THAT(text, Not(HasSubstr("other")));
  EXPECT_THAT(text, HasSubstr("       3      500.0     1500.0   3.00  linear"));
  EXPECT_THAT(text, HasSubstr("       1      500.0     1500.0      -  linear"));
  EXPECT_THAT(text, HasSubstr("    1000.0        -          -          -      -  linear"));
  EXPECT_LT(text.find("world, 8"), text.find("fft rows"));
}

TEST(ReportText, ForwardedCallsStandInTheTableWithTheirReason) {
  EXPECT_THAT(format_report({forwarded("MPI_Ialltoall", 3, "no progress")}, std::nullopt),
              HasSubstr("      -  MPI: no progress\n"));
}

TEST(ReportText, AddsUpCommunicatorsOfOneKind) {
  const std::string text =
      format_report({row("w", 0, 2, 8), row("w", 0, 2, 16), row("w", 0, 2, 8)}, std::nullopt);
  EXPECT_EQ(text.find("tapa report"), text.rfind("tapa report"));
  EXPECT_THAT(text, HasSubstr("MPI_Alltoall                      8         8           8192"));
  std::vector<ReportRow> many;
  for (int i = 0; i < 30; ++i)
    many.push_back(row("ranks " + std::to_string(i) + "-40 of MPI_COMM_WORLD", 0, 2, 8));
  EXPECT_THAT(format_report(many, std::nullopt),
              HasSubstr("tapa report: ranks *-* of MPI_COMM_WORLD, 2 ranks, several communicators"));
}

}  // namespace
}  // namespace tapa
