#include "series.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace tapa::preload {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr const char* kDebian12 =
    "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4, May 26, 2022";
constexpr const char* kMpich =
    "MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr  7 12:34:45 CDT 2022\nMPICH ABI:\t14:2:2";

TEST(Series, AreReadFromWhatMpiSays) {
  EXPECT_EQ(parse_library_version(kDebian12), (MpiSeries{Family::open_mpi, 4, 1}));
  EXPECT_EQ(parse_library_version("Open MPI v5.0.0rc12, package"), (MpiSeries{Family::open_mpi, 5, 0}));
  EXPECT_EQ(parse_library_version(kMpich), (MpiSeries{Family::mpich, 4, 0}));
  EXPECT_EQ(parse_library_version("MPICH Version:      3.4.3"), (MpiSeries{Family::mpich, 3, 4}));
  EXPECT_EQ(parse_library_version("Intel(R) MPI Library 2021.7 for Linux* OS").family, Family::relative);
  EXPECT_EQ(parse_library_version("MVAPICH2 Version      :\t2.3.7").family, Family::relative);
  EXPECT_EQ(parse_library_version("MPI VERSION    : CRAY MPICH version 8.1.25.17 (ANL base 3.4a2)\n").family,
            Family::relative);
  for (const auto* text : {"", "Open", "\n", "IBM Spectrum MPI 10.4", "my MPICH 4.0"}) {
    EXPECT_EQ(parse_library_version(text), MpiSeries{}) << text;
  }
}

TEST(Series, NumbersMayBeMissingOrHuge) {
  EXPECT_EQ(parse_library_version("Open MPI"), (MpiSeries{Family::open_mpi, 0, 0}));
  EXPECT_EQ(parse_library_version("Open MPI v4"), (MpiSeries{Family::open_mpi, 4, 0}));
  EXPECT_EQ(parse_library_version("Open MPI v4."), (MpiSeries{Family::open_mpi, 4, 0}));
  EXPECT_GT(parse_library_version("Open MPI v99999999999999999999.1").major, 4);
}

TEST(JudgeMpi, TheSeriesOfTheBuildIsFineAndSilent) {
  const auto judgement = judge_mpi({Family::open_mpi, 4, 1}, kDebian12);
  EXPECT_EQ(judgement.fit, Fit::same);
  EXPECT_TRUE(judgement.why.empty());
  EXPECT_EQ(judge_mpi({Family::mpich, 4, 0}, kMpich).fit, Fit::same);
}

TEST(JudgeMpi, AnotherOneOfTheSameInterfaceIsAllowedAndSaid) {
  const auto judgement = judge_mpi({Family::open_mpi, 4, 0}, kDebian12);
  EXPECT_EQ(judgement.fit, Fit::compatible);
  EXPECT_EQ(std::string_view(judgement.why),
            "built for Open MPI 4.0, this program runs Open MPI v4.1.4, whose binary interface is the same");
  EXPECT_EQ(judge_mpi({Family::open_mpi, 4, 1}, "Open MPI v4.0.7").fit, Fit::compatible);
  EXPECT_EQ(judge_mpi({Family::mpich, 4, 1}, kMpich).fit, Fit::compatible);
  EXPECT_EQ(judge_mpi({Family::mpich, 3, 4}, kMpich).fit, Fit::compatible);
  EXPECT_EQ(judge_mpi({Family::mpich, 4, 0}, "Intel(R) MPI Library 2021.7").fit, Fit::compatible);
}

TEST(JudgeMpi, OpenMpi5RunsWhatWasBuiltFor4ButNotTheReverse) {
  EXPECT_EQ(judge_mpi({Family::open_mpi, 4, 1}, "Open MPI v5.0.3").fit, Fit::compatible);
  const auto judgement = judge_mpi({Family::open_mpi, 5, 0}, kDebian12);
  EXPECT_EQ(judgement.fit, Fit::refused);
  EXPECT_EQ(std::string_view(judgement.why),
            "built for Open MPI 5.0, this program runs Open MPI v4.1.4, whose binary interface may differ");
}

TEST(JudgeMpi, SeriesThatNobodyPromisesAreRefused) {
  EXPECT_EQ(judge_mpi({Family::open_mpi, 4, 1}, "Open MPI v3.1.6").fit, Fit::refused);
  EXPECT_EQ(judge_mpi({Family::open_mpi, 4, 1}, "Open MPI v6.0.0").fit, Fit::refused);
  EXPECT_EQ(judge_mpi({Family::mpich, 4, 0}, "MPICH Version:\t3.4.3").fit, Fit::refused);
  EXPECT_EQ(judge_mpi({Family::mpich, 5, 0}, kMpich).fit, Fit::refused);
  EXPECT_EQ(judge_mpi({Family::mpich, 4, 0}, "MPICH Version:\t6.0.0").fit, Fit::refused);
}

TEST(JudgeMpi, LaterMpichsRunWhatWasBuiltForEarlierOnes) {
  for (const int built : {3, 4}) {
    EXPECT_EQ(judge_mpi({Family::mpich, built, 0}, "MPICH Version:      5.0.2").fit, Fit::compatible);
  }
}

TEST(JudgeMpi, TheInterfaceOfTheStandardIsServedByTheLibtapaForIt) {
  for (const auto family : {Family::open_mpi, Family::mpich}) {
    const auto judgement = judge_mpi({family, 5, 0}, "MPICH Version:      5.0.2\nMPICH ABI", true);
    EXPECT_EQ(judgement.fit, Fit::compatible);
    EXPECT_THAT(judgement.why.c_str(),
                HasSubstr("this program runs MPICH Version:      5.0.2 by the standard's interface "
                          "(libmpi_abi), for which TAPA_MPI_ABI=ON builds"));
  }
}

TEST(JudgeMpi, ABuildForTheStandardServesItInAnyMpi) {
  constexpr MpiSeries built{Family::standard, 1, 0};
  for (const auto* runs : {"MPICH Version:      5.0.2\nMPICH ABI", "Open MPI v6.0.0", "nobody knows it"}) {
    const auto judgement = judge_mpi(built, runs, true);
    EXPECT_EQ(judgement.fit, Fit::same);
    EXPECT_TRUE(judgement.why.empty());
  }
  for (const auto& [runs, needed] : {std::pair{"MPICH Version:      5.0.2\nMPICH ABI", "MPICH"},
                                     std::pair{"Intel(R) MPI Library 2021.18.1 for Linux* OS", "MPICH"},
                                     std::pair{kDebian12, "Open MPI"}, std::pair{"nobody knows it", "it"}}) {
    const auto judgement = judge_mpi(built, runs, false);
    EXPECT_EQ(judgement.fit, Fit::foreign);
    EXPECT_THAT(judgement.why.c_str(),
                HasSubstr("built for the standard's interface (libmpi_abi), but this program runs "));
    EXPECT_THAT(judgement.why.c_str(),
                EndsWith(std::string("; it needs the drop-in that was built for ") + needed));
  }
}

TEST(JudgeMpi, OtherHandlesAreForeign) {
  const auto judgement = judge_mpi({Family::open_mpi, 4, 1}, kMpich);
  EXPECT_EQ(judgement.fit, Fit::foreign);
  EXPECT_THAT(judgement.why.c_str(), HasSubstr("built for Open MPI, but this program runs MPICH"));
  EXPECT_EQ(judge_mpi({Family::mpich, 4, 0}, kDebian12).fit, Fit::foreign);
  EXPECT_EQ(judge_mpi({Family::open_mpi, 4, 1}, "IBM Spectrum MPI 10.4").fit, Fit::foreign);
}

}  // namespace
}  // namespace tapa::preload
