#include "common/nic_bound.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <stdexcept>

namespace tapa::bench {
namespace {

TEST(NicRate, UnitsOfTc) {
  EXPECT_DOUBLE_EQ(parse_nic_rate("100mbit").bytes_per_second, 12.5e6);
  EXPECT_DOUBLE_EQ(parse_nic_rate("20mbit").bytes_per_second, 2.5e6);
  EXPECT_DOUBLE_EQ(parse_nic_rate("800bit").bytes_per_second, 100);
  EXPECT_DOUBLE_EQ(parse_nic_rate("1.5gbit").bytes_per_second, 187.5e6);
  EXPECT_DOUBLE_EQ(parse_nic_rate("25gbps").bytes_per_second, 25e9);
  EXPECT_EQ(parse_nic_rate("100mbit").nics, 0);
  EXPECT_EQ(parse_nic_rate("2x100mbit").nics, 2);
  EXPECT_DOUBLE_EQ(parse_nic_rate("2x100mbit").bytes_per_second, 12.5e6);
}

TEST(NicRate, RatesOfSeveralNicsAreAddedUp) {
  const NicRate rate = parse_nic_rate("nic0=100mbit,nic1=20mbit");
  EXPECT_EQ(rate.nics, 1);
  EXPECT_DOUBLE_EQ(rate.bytes_per_second, 15e6);
}

TEST(NicRate, CountFromOpenMpisInterfaces) {
  EXPECT_EQ(count_nics(nullptr), 1);
  EXPECT_EQ(count_nics(""), 1);
  EXPECT_EQ(count_nics("^lo,docker0"), 1);
  EXPECT_EQ(count_nics("10.0.0.0/24,10.1.0.0/24"), 1);
  EXPECT_EQ(count_nics("nic0"), 1);
  EXPECT_EQ(count_nics("nic0,nic1"), 2);
}

TEST(NicRate, WrongTextsAreQuoted) {
  for (const char* text :
       {"", "fast", "100", "100 mbit", "-1mbit", "0mbit", "xmbit", "x100mbit", "0x100mbit", "2xx5mbit",
        "nanmbit", "infmbit", ",", "nic0=", "1mbit,x", "99999x1mbit", "100Mbit/s"}) {
    try {
      (void)parse_nic_rate(text);
      ADD_FAILURE() << text;
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(std::string(error.what()), "NIC rate '" + std::string(text) +
                                               "': expected [COUNTx]NUMBER and a unit of tc (bit, kbit, "
                                               "mbit, gbit, bps, kbps, mbps, gbps), for "
                                               "example 100mbit or 2x20mbit");
    }
  }
}

TEST(NicBound, HeadersOfEachSegmentAreCounted) {
  EXPECT_DOUBLE_EQ(wire_bytes(0), 0);
  EXPECT_DOUBLE_EQ(wire_bytes(1), 67);
  EXPECT_DOUBLE_EQ(wire_bytes(1448), 1514);
  EXPECT_DOUBLE_EQ(wire_bytes(1449), 1515 + 66);
  EXPECT_EQ(segment_bytes(9000), 8948);
  EXPECT_DOUBLE_EQ(wire_bytes(8949, 9000), 8949 + 2 * 66);
}

TEST(NicBound, PacketsAreAsLongAsTheFirstNicSays) {
  int mtu = 0;
  std::ifstream("/sys/class/net/lo/mtu") >> mtu;
  if (mtu > 0) {
    EXPECT_EQ(packet_of_nic("lo"), mtu);
    EXPECT_EQ(packet_of_nic("lo,none"), mtu);
  }
  EXPECT_EQ(packet_of_nic(nullptr), 1500);
  EXPECT_EQ(packet_of_nic("no-such-nic"), 1500);
}

TEST(NicBound, FourNodesOfFourAt100Mbit) {
  const std::vector<int> node_of{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
  // A node sends 4 x 12 blocks of 64 KiB.
  const double seconds = nic_bound_seconds(node_of, {1, 12.5e6}, [](int, int) { return 65536; });
  EXPECT_NEAR(seconds, 4 * 12 * 65536 * (1514.0 / 1448) / 12.5e6, 1e-5);
  EXPECT_NEAR(seconds, 0.263, 0.001);
  const double two = nic_bound_seconds(node_of, {2, 12.5e6}, [](int, int) { return 65536; });
  EXPECT_DOUBLE_EQ(two, seconds / 2);
  const double jumbo = nic_bound_seconds(node_of, {1, 12.5e6, 9000}, [](int, int) { return 65536; });
  EXPECT_NEAR(jumbo, 4 * 12 * 65536 * (9014.0 / 8948) / 12.5e6, 1e-5);
}

TEST(NicBound, TheBusiestDirectionOfTheBusiestNodeCounts) {
  // Rank 0 receives 1448 bytes from each of two other nodes; nothing else crosses.
  const auto incast = [](int src, int dst) {
    return static_cast<std::size_t>(dst == 0 && src != 0 ? 1448 : 0);
  };
  EXPECT_DOUBLE_EQ(nic_bound_seconds({0, 1, 2}, {1, 1514}, incast), 2);
  EXPECT_DOUBLE_EQ(nic_bound_seconds({0, 0, 0}, {1, 1514}, incast), 0);
  EXPECT_DOUBLE_EQ(nic_bound_seconds({}, {1, 1514}, incast), 0);
}

}  // namespace
}  // namespace tapa::bench
