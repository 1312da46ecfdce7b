#include "report/traffic.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "report_row.hpp"

namespace tapa {
namespace {

std::string words_of(const std::vector<LevelBytes>& levels) {
  std::string text;
  for (const LevelBytes& level : levels)
    text += (text.empty() ? "" : ", ") + level.name + " " + std::to_string(std::lround(level.bytes));
  return text;
}

TEST(Traffic, ABlockCountsForTheCallsAroundIt) {
  Traffic traffic;
  int looked = 0;
  for (int call = 0; call < 800; ++call) {
    const std::uint64_t each = traffic.begin();
    if (each == 0) continue;
    ++looked;
    traffic.add(3, 10 * static_cast<double>(each));
  }
  EXPECT_EQ(traffic.bytes(), (std::vector<double>{0, 0, 0, 8000}));
  EXPECT_EQ(looked, 32 + 96);
}

TEST(Traffic, CallsWithEqualBlocksSendAsMuchToEach) {
  std::vector<ReportRow> rows;
  double expected = 0;
  const auto add = [&](const char* function, bool equal) {
    rows.push_back(row("", 0, 4, 8));  // of 4096 bytes
    rows.back().function = function;
    if (equal) expected += 1024;
  };
  for (const char* function : {"TAPA_Alltoall", "TAPA_Ialltoall", "TAPA_Alltoall_c", "TAPA_Alltoall_init",
                               "TAPA_Alltoall_init_c", "TAPA_Ialltoall_c"})
    add(function, true);
  for (const char* function :
       {"TAPA_Alltoallv", "TAPA_Ialltoallw", "TAPA_Alltoallv_select", "TAPA_Alltoallv_init",
        "TAPA_Neighbor_alltoall", "TAPA_Ineighbor_alltoallv", "TAPA_Sparse_exchange"})
    add(function, false);
  EXPECT_DOUBLE_EQ(bytes_to_each(rows), expected);
}

TEST(Traffic, GoesByTheFastestCommonLevel) {
  const Topology topology = make_uniform_topology({2, 2, 2});
  const auto levels = bytes_by_level(topology, 2, std::vector<double>{1, 2, 4, 8, 16, 32, 64, 128}, {});
  EXPECT_EQ(words_of(levels), "gpu 0, host 0, socket 8, node 3, world 240") << "what it keeps is not sent";
}

TEST(Traffic, OfOneNodeGoesByTheNode) {
  Topology topology = make_uniform_topology({1, 3});
  topology.merge_equal_levels();
  const auto levels = bytes_by_level(topology, 0, std::vector<double>{1, 2, 4}, {});
  EXPECT_EQ(words_of(levels), "gpu 0, host 0, node 6");
}

TEST(Traffic, LevelsOfAFileByTheSameNamesAreOneRow) {
  Topology topology = make_uniform_topology({2, 2, 2});
  topology.levels[0].name = "gpu";
  topology.levels[1].name = "host";
  Traffic traffic;
  traffic.add_of_gpus(1, 4, true);
  const auto levels = bytes_by_level(topology, 0, std::vector<double>{1, 6, 8, 16, 32}, traffic.of_gpus());
  EXPECT_EQ(words_of(levels), "gpu 6, host 24, world 32");
}

// Two pairs with bridges on a host, and one of another host: who is within reach on another node is so by
// NICs.
TEST(Traffic, BetweenGpusGoesByWhatJoinsThem) {
  const Topology topology = make_uniform_topology({2, 4});
  Traffic traffic;
  for (std::size_t peer = 0; peer < 5; ++peer) traffic.add_of_gpus(peer, 1 << peer, peer == 2 || peer == 3);
  traffic.add_of_gpus(0, 16, false);
  const std::vector<double> sent{32, 2, 1000, 8, 64};
  EXPECT_EQ(words_of(bytes_by_level(topology, 2, sent, traffic.of_gpus())),
            "gpu 8, host 19, node 15, world 64");
}

}  // namespace
}  // namespace tapa
