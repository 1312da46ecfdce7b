#include "report/traffic.hpp"

#include <gtest/gtest.h>

#include "report_row.hpp"

namespace tapa {
namespace {

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
  const auto levels = bytes_by_level(topology, 2, std::vector<double>{1, 2, 4, 8, 16, 32, 64, 128});
  ASSERT_EQ(levels.size(), 3U);
  EXPECT_EQ(levels[0].name, "socket");
  EXPECT_EQ(levels[0].bytes, 8) << "what it keeps is not sent";
  EXPECT_EQ(levels[1].bytes, 1 + 2);
  EXPECT_EQ(levels[2].name, "world");
  EXPECT_EQ(levels[2].bytes, 16 + 32 + 64 + 128);
}

TEST(Traffic, OfOneNodeGoesByTheNode) {
  Topology topology = make_uniform_topology({1, 3});
  topology.merge_equal_levels();
  const auto levels = bytes_by_level(topology, 0, std::vector<double>{1, 2, 4});
  ASSERT_EQ(levels.size(), 1U);
  EXPECT_EQ(levels[0].name, "node");
  EXPECT_EQ(levels[0].bytes, 6);
}

}  // namespace
}  // namespace tapa
