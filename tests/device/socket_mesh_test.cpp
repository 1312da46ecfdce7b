// Connections between ranks: threads as ranks, the loopback interface.
#include "device/socket_mesh.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <latch>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>

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

/// Where this process listens.
std::vector<SocketAddress> listening() {
  std::vector<SocketAddress> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename().string());
    int listens = 0;
    socklen_t bytes = sizeof(listens);
    if (::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) != 0 || listens == 0) continue;
    SocketAddress own{};
    bytes = sizeof(own);
    if (::getsockname(descriptor, &own.any, &bytes) == 0) found.push_back(own);
  }
  return found;
}

/// Ports that this process listens at, on IPv4.
std::set<std::uint16_t> listening_ports() {
  std::set<std::uint16_t> ports;
  for (const SocketAddress& each : listening())
    if (each.any.sa_family == AF_INET) ports.insert(ntohs(each.v4.sin_port));
  return ports;
}

SocketAddress loopback(const char* text, std::uint16_t port) {
  SocketAddress address{};
  address.v4.sin_family = AF_INET;
  address.v4.sin_port = htons(port);
  EXPECT_EQ(::inet_pton(AF_INET, text, &address.v4.sin_addr), 1);
  return address;
}

TEST_F(SocketMeshes, ListenAtTheChosenInterfaceAlone) {
  std::vector<std::string> addresses;
  const auto gather = [&](Rank& me, const void* mine, void* all, std::size_t bytes) {
    if (me.rank == 0 && bytes == sizeof(SocketContact))
      for (const SocketAddress& each : listening()) addresses.push_back(text_of(each));
    return allgather(&me, mine, all, bytes);
  };
  as_ranks_by(2, gather,
              [](const Agreement& agreement) { (void)connect_peers(agreement, {1 - agreement.rank()}, 1); });
  EXPECT_GE(addresses.size(), 1U);
  for (const std::string& each : addresses) EXPECT_TRUE(each == "127.0.0.1" || each == "::1") << each;
}

/// What strangers say before the ranks can: nothing, something else, and what rank 1 would say to rank 0 on
/// its first channel but for what only ranks know; and one has left.
TEST_F(SocketMeshes, StrangersAreTurnedAway) {
  const std::set<std::uint16_t> before = listening_ports();
  std::array<char, sizeof(Hello)> impostor{};
  const Hello hello{1, 0, {}, {}};
  std::memcpy(impostor.data(), &hello, sizeof(hello));
  std::array<char, sizeof(Hello)> other{};
  other.fill('x');
  const std::span<const char> words[] = {{}, other, impostor};
  std::vector<Descriptor> strangers;
  const auto call_as_strangers = [&] {
    for (const std::uint16_t port : listening_ports()) {
      if (before.contains(port)) continue;
      connected_to(loopback("127.0.0.1", port)).close();
      for (const std::span<const char> said : words) {
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
  SocketAddress address{};
  const Descriptor silent = listen_at(loopback("127.0.0.9", 0), address);
  as_ranks_told(4, first_is(address), [](const Agreement& agreement) {
    expect_right_ends(connect_peers(agreement, all_but(agreement.rank(), 4), 2), agreement.rank());
  });
}

/// As where a network is not routed: calls go nowhere, for each of many peers.
TEST_F(SocketMeshes, AnAddressThatLeadsNowhereCostsOnce) {
  SocketAddress address{};
  const Descriptor full = listen_at(loopback("127.0.0.9", 0), address);
  ASSERT_EQ(::listen(full.get(), 0), 0);
  std::vector<Descriptor> waiting;  // fill its queue: more calls get no answer
  for (int call = 0; call < 4; ++call) {
    std::string why;
    waiting.push_back(begin_connect(address, why));
  }
  const auto began = std::chrono::steady_clock::now();
  as_ranks_told(8, first_is(address), [](const Agreement& agreement) {
    expect_right_ends(connect_peers(agreement, all_but(agreement.rank(), 8), 1), agreement.rank());
  });
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
}

/// A stranger at the address of a rank, who passes on to the rank what is said to him, and back.
class Relay {
 public:
  explicit Relay(const SocketAddress& to)
      : to_(to), listening_(listen_at(loopback("127.0.0.9", 0), address_)) {
    thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
  }
  [[nodiscard]] const SocketAddress& address() const { return address_; }
  [[nodiscard]] int passed_on() const { return passed_on_; }

 private:
  void work(const std::stop_token& stop) {
    std::vector<std::array<Descriptor, 2>> pairs;
    while (!stop.stop_requested()) {
      Descriptor caller = accept_one(listening_);
      if (caller.is_open()) pairs.push_back({std::move(caller), connected_to(to_)});
      for (auto& [one, other] : pairs) pass(one, other), pass(other, one);
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  void pass(const Descriptor& from, const Descriptor& to) {
    std::array<char, 4096> bytes;
    const ssize_t count = ::recv(from.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count == 0) ::shutdown(to.get(), SHUT_WR);
    if (count > 0) passed_on_ += write_few(to, bytes.data(), static_cast<std::size_t>(count)) ? 1 : 0;
  }

  SocketAddress to_;
  SocketAddress address_{};
  Descriptor listening_;
  std::atomic<int> passed_on_{0};
  std::jthread thread_;
};

/// As where a stranger has the address of a rank in a network of the other one, and reaches both.
TEST_F(SocketMeshes, WhoPassesOnWhatRanksSayIsNoRank) {
  std::mutex one_relay;
  std::optional<Relay> relay;
  const auto through = [&](std::span<SocketContact> contacts) {
    const std::scoped_lock lock(one_relay);
    if (!relay) relay.emplace(contacts[0].addresses[0]);
    first_is(relay->address())(contacts);
  };
  as_ranks_told(2, through, [](const Agreement& agreement) {
    const SocketMesh mesh = connect_peers(agreement, {1 - agreement.rank()}, 2);
    expect_right_ends(mesh, agreement.rank());
    for (const auto& some : mesh.by_channel) {
      SocketAddress other{};
      socklen_t bytes = sizeof(other);
      ASSERT_EQ(::getpeername(some[0].socket.get(), &other.any, &bytes), 0);
      EXPECT_EQ(text_of(other), "127.0.0.1");
    }
  });
  EXPECT_GT(relay->passed_on(), 0);
}

/// Strangers call as fast as they can, and say nothing.
TEST_F(SocketMeshes, AFloodOfCallsKeepsNobodyApart) {
  const std::set<std::uint16_t> before = listening_ports();
  std::vector<std::jthread> strangers;
  std::atomic<int> calls{0};
  const auto flood = [&calls](const std::stop_token& stop, std::uint16_t port) {
    std::deque<Descriptor> held;
    while (!stop.stop_requested()) {
      std::string why;
      held.push_back(begin_connect(loopback("127.0.0.1", port), why));
      if (held.size() > 150) held.pop_front();
      ++calls;
    }
  };
  std::once_flag once;
  const auto with_strangers = [&](std::span<SocketContact>) {
    std::call_once(once, [&] {
      for (const std::uint16_t port : listening_ports())
        if (!before.contains(port)) strangers.emplace_back(flood, port);
      while (calls < 1000) std::this_thread::yield();
    });
  };
  as_ranks_told(3, with_strangers, [](const Agreement& agreement) {
    expect_right_ends(connect_peers(agreement, all_but(agreement.rank(), 3), 4), agreement.rank());
  });
}

/// Who says nothing is left before the ranks have given up each other.
TEST_F(SocketMeshes, WhoIsSilentHasHisTime) {
  const std::set<std::uint16_t> before = listening_ports();
  std::vector<Descriptor> silent;
  std::once_flag once;
  std::latch called(1);
  const auto call_and_send_away = [&](std::span<SocketContact> contacts) {
    std::call_once(once, [&] {
      for (const std::uint16_t port : listening_ports())
        if (!before.contains(port)) silent.push_back(connected_to(loopback("127.0.0.1", port)));
      called.count_down();
    });
    SocketAddress nowhere{};
    listen_at(loopback("127.0.0.9", 0), nowhere).close();
    contacts[0].addresses[0] = nowhere;
    contacts[0].count = 1;
  };
  std::atomic<bool> over = false;
  std::jthread watch([&] {
    called.wait();
    EXPECT_EQ(silent.size(), 2U);
    for (const Descriptor& each : silent) {
      char answer = 0;
      EXPECT_FALSE(read_all(each, &answer, 1));
    }
    EXPECT_FALSE(over);
  });
  as_ranks_told(2, call_and_send_away, [&](const Agreement& agreement) {
    EXPECT_THROW((void)connect_peers(agreement, {1 - agreement.rank()}, 1, std::chrono::seconds(3)),
                 DeviceError);
    over = true;
  });
}

TEST_F(SocketMeshes, AnAddressThatRefusesIsNamedByAll) {
  SocketAddress address{};
  listen_at(loopback("127.0.0.9", 0), address).close();
  const auto nowhere = [&](std::span<SocketContact> contacts) {
    contacts[1].addresses[0] = address;
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
