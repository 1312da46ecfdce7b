// Connections between ranks: threads as ranks, the loopback interface.
#include "device/socket_mesh.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <set>
#include <span>
#include <string>

#include "agreement_threads.hpp"
#include "device/device_error.hpp"
#include "socket_helpers.hpp"

namespace tapa::device {
namespace {

using SocketMeshes = OnLoopback;

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
  std::set<std::uint16_t> ports;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename().string());
    int listens = 0;
    socklen_t bytes = sizeof(listens);
    if (::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) != 0 || listens == 0) continue;
    SocketAddress own{};
    bytes = sizeof(own);
    if (::getsockname(descriptor, &own.any, &bytes) == 0 && own.any.sa_family == AF_INET)
      ports.insert(ntohs(own.v4.sin_port));
  }
  return ports;
}

SocketAddress loopback(const char* text, std::uint16_t port) {
  SocketAddress address{};
  address.v4.sin_family = AF_INET;
  address.v4.sin_port = htons(port);
  EXPECT_EQ(::inet_pton(AF_INET, text, &address.v4.sin_addr), 1);
  return address;
}

/// What strangers say before the ranks can: nothing, something else, and what rank 1 would say to rank 0 on
/// its first channel but for what only ranks know; and one has left.
TEST_F(SocketMeshes, StrangersAreTurnedAway) {
  const std::set<std::uint16_t> before = listening_ports();
  std::string impostor(16, '\0');
  for (const int number : {1, 0}) impostor.append(reinterpret_cast<const char*>(&number), sizeof(number));
  const std::string words[] = {"", std::string(24, 'x'), impostor + 'y'};
  std::vector<Descriptor> strangers;
  const auto call_as_strangers = [&] {
    for (const std::uint16_t port : listening_ports()) {
      if (before.contains(port)) continue;
      connected_to(loopback("127.0.0.1", port)).close();
      for (const std::string& said : words) {
        strangers.push_back(connected_to(loopback("127.0.0.1", port)));
        EXPECT_TRUE(write_few(strangers.back(), said.data(), said.size()));
      }
    }
  };
  int gathers = 0;  // of rank 1
  const auto gather = [&](Rank& me, const void* mine, void* all, std::size_t bytes) {
    // The second tells how ranks are reached: all listen.
    if (me.rank == 1 && ++gathers == 2) call_as_strangers();
    return allgather(&me, mine, all, bytes);
  };
  as_ranks_by(2, gather, [](const Agreement& agreement) {
    expect_right_ends(connect_peers(agreement, {1 - agreement.rank()}, 2), agreement.rank());
  });
  EXPECT_GE(strangers.size(), 3U);
  for (const Descriptor& stranger : strangers) {  // no answer: it could be shown to another rank
    char answer = 0;
    EXPECT_FALSE(read_all(stranger, &answer, 1));
  }
}

/// Ranks whose contacts are changed on the way: change(contacts) on each.
template <class Body>
void as_ranks_told(int size, const std::function<void(std::span<SocketContact>)>& change, const Body& body) {
  const auto gather = [&change](Rank& me, const void* mine, void* all, std::size_t bytes) {
    const int status = allgather(&me, mine, all, bytes);
    if (bytes == sizeof(SocketContact)) change({static_cast<SocketContact*>(all), me.size});
    return status;
  };
  as_ranks_by(size, gather, body);
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
  const Descriptor silent = listen_anywhere(AF_INET, port);
  as_ranks_told(4, first_is(loopback("127.0.0.9", port)), [](const Agreement& agreement) {
    expect_right_ends(connect_peers(agreement, all_but(agreement.rank(), 4), 2), agreement.rank());
  });
}

/// As where a network is not routed: calls go nowhere, for each of many peers.
TEST_F(SocketMeshes, AnAddressThatLeadsNowhereCostsOnce) {
  std::uint16_t port = 0;
  const Descriptor full = listen_anywhere(AF_INET, port);
  ASSERT_EQ(::listen(full.get(), 0), 0);
  std::vector<Descriptor> waiting;  // fill its queue: more calls get no answer
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
