// Which network interfaces connections use.
#include "device/socket_interfaces.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace tapa::device {
namespace {

SocketAddress address(const char* text) {
  SocketAddress made{};
  const bool is_v6 = std::string_view(text).find(':') != std::string_view::npos;
  made.any.sa_family = is_v6 ? AF_INET6 : AF_INET;
  void* const bytes = is_v6 ? static_cast<void*>(&made.v6.sin6_addr) : static_cast<void*>(&made.v4.sin_addr);
  EXPECT_EQ(::inet_pton(made.any.sa_family, text, bytes), 1) << text;
  return made;
}

SocketInterface named(const char* name, std::uint64_t speed = 0) {
  return {name, address("10.0.0.1"), address("255.0.0.0"), std::string_view(name) == "lo", speed};
}

std::string names(const std::vector<SocketInterface>& some) {
  std::string all;
  for (const SocketInterface& each : some) all += (all.empty() ? "" : " ") + each.name;
  return all;
}

const std::vector<SocketInterface> kMachine = {named("lo"),   named("docker0"),      named("eth0", 1000),
                                               named("eth1"), named("ib0", 100'000), named("eth10", 10'000)};

TEST(SocketInterfaces, TheFastestComeFirst) {
  EXPECT_EQ(names(choose_interfaces(kMachine, "")), "ib0 eth10 eth0 eth1");
}

TEST(SocketInterfaces, WhatIsThereIsTaken) {
  EXPECT_EQ(names(choose_interfaces({named("lo"), named("docker0")}, "")), "docker0");
  EXPECT_EQ(names(choose_interfaces({named("lo")}, "")), "lo");
  EXPECT_EQ(names(choose_interfaces({}, "")), "");
}

TEST(SocketInterfaces, AListIsOfBeginningsOfNames) {
  EXPECT_EQ(names(choose_interfaces(kMachine, "eth1,lo")), "eth1 eth10 lo");
  EXPECT_EQ(names(choose_interfaces(kMachine, "=eth1,lo")), "eth1 lo");
  EXPECT_EQ(names(choose_interfaces(kMachine, ",=eth1")), "");
  EXPECT_EQ(names(choose_interfaces(kMachine, "wlan")), "");
}

TEST(SocketInterfaces, AListMayNameWhatIsLeftOut) {
  EXPECT_EQ(names(choose_interfaces(kMachine, "^eth,docker")), "ib0");
  EXPECT_EQ(names(choose_interfaces(kMachine, "^=eth1,docker")), "ib0 eth10 eth0 docker0");
}

TEST(SocketInterfaces, TheLibrarysOwnWordCounts) {
  ::unsetenv("TAPA_SOCKET_IFNAME");
  ::unsetenv("NCCL_SOCKET_IFNAME");
  EXPECT_EQ(wanted_interfaces(), "");
  ::setenv("NCCL_SOCKET_IFNAME", "eth", 1);
  EXPECT_EQ(wanted_interfaces(), "eth");
  ::setenv("TAPA_SOCKET_IFNAME", "=lo", 1);
  EXPECT_EQ(wanted_interfaces(), "=lo");
  ::unsetenv("TAPA_SOCKET_IFNAME");
  ::unsetenv("NCCL_SOCKET_IFNAME");
}

TEST(SocketInterfaces, ANetworkIsKnownByItsMask) {
  const auto on = [](const char* own, const char* mask, const char* other) {
    return on_one_network({"eth0", address(own), address(mask)}, address(other));
  };
  EXPECT_TRUE(on("10.1.2.3", "255.255.255.0", "10.1.2.200"));
  EXPECT_FALSE(on("10.1.2.3", "255.255.255.0", "10.1.3.3"));
  EXPECT_TRUE(on("10.1.2.3", "255.255.254.0", "10.1.3.3"));
  EXPECT_FALSE(on("10.1.2.3", "255.0.0.0", "fd00::1"));
  EXPECT_TRUE(on("fd00::1", "ffff:ffff::", "fd00::2:1"));
  EXPECT_FALSE(on("fd00::1", "ffff:ffff::", "fd00:1::1"));
}

TEST(SocketInterfaces, ThisMachineHasSome) {
  const std::vector<SocketInterface> all = list_interfaces();
  const auto loopback = choose_interfaces(all, "=lo");
  ASSERT_FALSE(loopback.empty());
  EXPECT_EQ(text_of(loopback.front().address), "127.0.0.1");
  EXPECT_TRUE(loopback.front().loopback);
}

}  // namespace
}  // namespace tapa::device
