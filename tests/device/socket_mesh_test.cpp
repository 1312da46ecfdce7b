// Connections between ranks: threads as ranks, the loopback interface.
#include "device/socket_mesh.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <set>

#include "agreement_threads.hpp"
#include "device/device_error.hpp"

namespace tapa::device {
namespace {

class SocketMeshes : public testing::Test {
 protected:
  void SetUp() override { ::setenv("TAPA_SOCKET_IFNAME", "=lo", 1); }
  void TearDown() override { ::unsetenv("TAPA_SOCKET_IFNAME"); }
};

std::vector<int> all_but(int rank, int size) {
  std::vector<int> others;
  for (int other = 0; other < size; ++other)
    if (other != rank) others.push_back(other);
  return others;
}

auto soon() {
  return SocketClock::now() + std::chrono::seconds(20);
}

/// Says over each connection who calls whom on which channel, and hears the same.
void expect_right_ends(const SocketMesh& mesh, int rank) {
  for (std::size_t channel = 0; channel < mesh.by_channel.size(); ++channel) {
    for (const PeerSocket& each : mesh.by_channel[channel]) {
      const int mine[] = {rank, each.peer, static_cast<int>(channel)};
      EXPECT_TRUE(write_all(each.socket, mine, sizeof(mine), soon()));
      int theirs[3] = {};
      EXPECT_TRUE(read_all(each.socket, theirs, sizeof(theirs), soon()));
      EXPECT_EQ(theirs[0], each.peer);
      EXPECT_EQ(theirs[1], rank);
      EXPECT_EQ(theirs[2], static_cast<int>(channel));
    }
  }
}

TEST_F(SocketMeshes, JoinEveryPairOnEveryChannel) {
  for (const int size : {2, 3, 7}) {
    as_ranks(size, [size](const Agreement& agreement) {
      const int rank = agreement.rank();
      const SocketMesh mesh = connect_peers(agreement, all_but(rank, size), 3);
      ASSERT_EQ(mesh.by_channel.size(), 3U);
      for (const auto& some : mesh.by_channel) EXPECT_EQ(some.size(), static_cast<std::size_t>(size - 1));
      EXPECT_EQ(mesh.interfaces.substr(0, 12), "lo 127.0.0.1");
      expect_right_ends(mesh, rank);
    });
  }
}

TEST_F(SocketMeshes, OnlyRanksOfOtherNodesArePeers) {
  as_ranks(4, [](const Agreement& agreement) {  // nodes {0, 2} and {1, 3}
    const int rank = agreement.rank();
    const SocketMesh mesh = connect_peers(agreement, {(rank + 1) % 2, (rank + 1) % 2 + 2}, 1);
    EXPECT_EQ(mesh.by_channel[0].size(), 2U);
    expect_right_ends(mesh, rank);
  });
}

/// Ports that this process listens at, on IPv4.
std::set<std::uint16_t> listening_ports() {
  std::ifstream table("/proc/self/net/tcp");
  std::set<std::uint16_t> ports;
  std::string line;
  for (std::getline(table, line); std::getline(table, line);) {
    unsigned port = 0, state = 0;
    if (std::sscanf(line.c_str(), "%*d: %*8x:%4x %*8x:%*4x %2x", &port, &state) == 2 && state == 0x0a)
      ports.insert(static_cast<std::uint16_t>(port));
  }
  return ports;
}

/// Strangers call rank 0 before the others can: one says nothing, one says something else, one leaves.
TEST_F(SocketMeshes, StrangersAreTurnedAway) {
  const std::set<std::uint16_t> before = listening_ports();
  std::atomic<int> strangers = 0;
  std::vector<Socket> kept;
  std::mutex mutex;
  const auto call_as_stranger = [&] {
    for (const std::uint16_t port : listening_ports()) {
      if (before.contains(port)) continue;
      for (int stranger = 0; stranger < 3; ++stranger) {
        SocketAddress address{};
        address.v4.sin_family = AF_INET;
        address.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.v4.sin_port = htons(port);
        std::string why;
        Socket socket = connect_to(address, soon(), why);
        if (socket.get() < 0) continue;
        ++strangers;
        const std::vector<char> nonsense(24, 'x');
        if (stranger == 1) {
          EXPECT_TRUE(write_all(socket, nonsense.data(), nonsense.size(), soon()));
        }
        const std::lock_guard lock(mutex);
        if (stranger < 2) kept.push_back(std::move(socket));
      }
    }
  };
  Meeting meeting(2);
  std::vector<std::jthread> threads;
  for (const int rank : {0, 1}) {
    threads.emplace_back([&, rank] {
      struct Calls {
        Rank me;
        int gathers = 0;
        const decltype(call_as_stranger)* before_calls;
      } calls{{&meeting, static_cast<std::size_t>(rank), 2}, 0, &call_as_stranger};
      const auto gather = [](void* context, const void* mine, void* all, std::size_t bytes) {
        Calls& state = *static_cast<Calls*>(context);
        // The fourth tells how ranks are reached: all listen.
        if (++state.gathers == 4 && state.me.rank == 1) (*state.before_calls)();
        return allgather(&state.me, mine, all, bytes);
      };
      const Agreement agreement(rank, 2, gather, &calls);
      expect_right_ends(connect_peers(agreement, {1 - rank}, 2), rank);
    });
  }
  threads.clear();
  EXPECT_GE(strangers, 3);
}

TEST_F(SocketMeshes, AnInterfaceThatIsNotThereIsNamed) {
  ::setenv("TAPA_SOCKET_IFNAME", "=nothing", 1);
  as_ranks(2, [](const Agreement& agreement) {
    try {
      (void)connect_peers(agreement, {1 - agreement.rank()}, 1);
      ADD_FAILURE();
    } catch (const DeviceError& error) {
      EXPECT_NE(std::string(error.what()).find("= \"=nothing\""), std::string::npos) << error.what();
    }
  });
}

}  // namespace
}  // namespace tapa::device
