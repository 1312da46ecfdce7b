// Connections between ranks: threads as ranks, the loopback interface.
#include "device/socket_mesh.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <mutex>
#include <set>
#include <span>

#include "agreement_threads.hpp"
#include "device/device_error.hpp"
#include "socket_helpers.hpp"

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

/// Says over each connection who calls whom on which channel, then hears the same.
void expect_right_ends(const SocketMesh& mesh, int rank) {
  const auto each_end = [&](const auto& body) {
    for (std::size_t channel = 0; channel < mesh.by_channel.size(); ++channel)
      for (const PeerSocket& each : mesh.by_channel[channel]) body(each, static_cast<int>(channel));
  };
  each_end([&](const PeerSocket& each, int channel) {
    const int mine[] = {rank, each.peer, channel};
    EXPECT_TRUE(write_few(each.socket, mine, sizeof(mine)));
  });
  each_end([&](const PeerSocket& each, int channel) {
    int theirs[3] = {};
    EXPECT_TRUE(read_all(each.socket, theirs, sizeof(theirs)));
    EXPECT_EQ(theirs[0], each.peer);
    EXPECT_EQ(theirs[1], rank);
    EXPECT_EQ(theirs[2], channel);
  });
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
        Socket socket = connected_to(address);
        if (!socket.is_open()) continue;
        ++strangers;
        const std::vector<char> nonsense(24, 'x');
        if (stranger == 1) {
          EXPECT_TRUE(write_few(socket, nonsense.data(), nonsense.size()));
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
        // The second tells how ranks are reached: all listen.
        if (++state.gathers == 2 && state.me.rank == 1) (*state.before_calls)();
        return allgather(&state.me, mine, all, bytes);
      };
      const Agreement agreement(rank, 2, gather, &calls);
      expect_right_ends(connect_peers(agreement, {1 - rank}, 2), rank);
    });
  }
  threads.clear();
  EXPECT_GE(strangers, 3);
}

/// Ranks whose contacts are changed on the way: change(contacts) on each.
template <class Body>
void as_ranks_told(int size, const std::function<void(std::span<SocketContact>)>& change, const Body& body) {
  Meeting meeting(size);
  struct Told {
    Rank me;
    const std::function<void(std::span<SocketContact>)>* change;
  };
  const auto gather = [](void* context, const void* mine, void* all, std::size_t bytes) {
    Told& told = *static_cast<Told*>(context);
    const int status = allgather(&told.me, mine, all, bytes);
    if (bytes == sizeof(SocketContact)) (*told.change)({static_cast<SocketContact*>(all), told.me.size});
    return status;
  };
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      Told told{{&meeting, static_cast<std::size_t>(rank), static_cast<std::size_t>(size)}, &change};
      body(Agreement(rank, size, gather, &told));
    });
  }
}

SocketAddress loopback(const char* text, std::uint16_t port) {
  SocketAddress address{};
  address.v4.sin_family = AF_INET;
  address.v4.sin_port = htons(port);
  EXPECT_EQ(::inet_pton(AF_INET, text, &address.v4.sin_addr), 1);
  return address;
}

/// Puts an address before those of all contacts.
std::function<void(std::span<SocketContact>)> first_is(const SocketAddress& address) {
  return [address](std::span<SocketContact> contacts) {
    for (SocketContact& each : contacts) {
      std::rotate(each.addresses.begin(), each.addresses.end() - 1, each.addresses.end());
      each.addresses[0] = address;
      ++each.count;
    }
  };
}

/// As where an address is another machine's, too, which takes the call and says nothing.
TEST_F(SocketMeshes, AnAddressThatIsSilentIsNotWaitedFor) {
  std::uint16_t port = 0;
  const Socket silent = listen_anywhere(AF_INET, port);
  as_ranks_told(4, first_is(loopback("127.0.0.9", port)), [](const Agreement& agreement) {
    expect_right_ends(connect_peers(agreement, all_but(agreement.rank(), 4), 2), agreement.rank());
  });
}

/// As where a network is not routed: calls go nowhere, for each of many peers.
TEST_F(SocketMeshes, AnAddressThatLeadsNowhereCostsOnce) {
  std::uint16_t port = 0;
  const Socket full = listen_anywhere(AF_INET, port);
  ASSERT_EQ(::listen(full.get(), 0), 0);
  std::vector<Socket> waiting;  // fill its queue: more calls get no answer
  for (int call = 0; call < 4; ++call) {
    std::string why;
    waiting.push_back(begin_connect(loopback("127.0.0.9", port), why));
  }
  const auto began = std::chrono::steady_clock::now();
  as_ranks_told(8, first_is(loopback("127.0.0.9", port)), [](const Agreement& agreement) {
    expect_right_ends(connect_peers(agreement, all_but(agreement.rank(), 8), 1), agreement.rank());
  });
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
}

TEST_F(SocketMeshes, AnAddressThatRefusesIsNamedByAll) {
  std::uint16_t port = 0;
  listen_anywhere(AF_INET, port).close();
  const auto nowhere = [&](std::span<SocketContact> contacts) {
    contacts[1].addresses[0] = loopback("127.0.0.9", port);
    contacts[1].count = 1;
  };
  as_ranks_told(3, nowhere, [](const Agreement& agreement) {
    try {
      (void)connect_peers(agreement, all_but(agreement.rank(), 3), 1, std::chrono::seconds(1));
      ADD_FAILURE();
    } catch (const DeviceError& error) {
      EXPECT_EQ(
          std::string(error.what()),
          "rank 2: rank 1 is not reached at 127.0.0.9: Connection refused (TAPA_SOCKET_IFNAME names the "
          "interfaces to use)");
    }
  });
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
