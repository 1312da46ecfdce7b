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

}  // namespace
}  // namespace tapa
