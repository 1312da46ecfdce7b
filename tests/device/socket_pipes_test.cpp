// Pipes over TCP: threads as ranks, teams and lanes, the loopback interface.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "agreement_threads.hpp"
#include "device/device_error.hpp"
#include "device/socket_messenger.hpp"
#include "host_pipes.hpp"

namespace tapa::device {
namespace {

class SocketPipes : public testing::Test {
 protected:
  void SetUp() override { ::setenv("TAPA_SOCKET_IFNAME", "=lo", 1); }
  void TearDown() override { ::unsetenv("TAPA_SOCKET_IFNAME"); }
};

std::unique_ptr<Messenger> messenger_of(const Agreement& agreement) {
  std::vector<int> peers;
  for (int peer = 0; peer < agreement.size(); ++peer)
    if (peer != agreement.rank()) peers.push_back(peer);
  SocketMesh mesh = connect_peers(agreement, peers, 1);
  return std::make_unique<SocketMessenger>(std::move(mesh.by_channel[0]), mesh.interfaces);
}

std::byte byte_of(int from, int to, int round, std::size_t at) {
  return static_cast<std::byte>((static_cast<std::size_t>(from * 31 + to * 7 + round * 101) + at * 13) % 251);
}
std::size_t bytes_of(int from, int to, int round, std::size_t most) {
  std::minstd_rand random(static_cast<unsigned>(round * 4096 + from * 64 + to));
  random.discard(4);
  return random() % 4 == 0 ? 0 : random() % most;
}

struct Case {
  int ranks;
  HostPipes::Style style;
  std::size_t chunk;
  int rounds;
  std::size_t most;
};

void one_round(HostPipes& pipes, int rank, const Case& test, int round) {
  const auto ranks = static_cast<std::size_t>(test.ranks);
  std::vector<std::vector<std::byte>> out(ranks), in(ranks);
  std::vector<HostPipes::Part> sends, receives;
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    const int other = static_cast<int>(peer);
    out[peer].resize(bytes_of(rank, other, round, test.most));
    for (std::size_t at = 0; at < out[peer].size(); ++at) out[peer][at] = byte_of(rank, other, round, at);
    in[peer].assign(bytes_of(other, rank, round, test.most), std::byte{0xee});
    sends.push_back({out[peer].data(), out[peer].size()});
    receives.push_back({in[peer].data(), in[peer].size()});
  }
  pipes.exchange(sends, receives, static_cast<unsigned>(round * 100 + rank));
  std::size_t wrong = 0;
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    if (static_cast<int>(peer) == rank) continue;
    for (std::size_t at = 0; at < in[peer].size(); ++at)
      wrong += in[peer][at] != byte_of(static_cast<int>(peer), rank, round, at) ? 1 : 0;
  }
  EXPECT_EQ(wrong, 0U) << "rank " << rank << ", round " << round;
}

void expect_right(const Case& test) {
  as_ranks(test.ranks, [&](const Agreement& agreement) {
    HostPipes pipes(agreement.rank(), test.ranks, test.chunk, test.style, messenger_of(agreement));
    for (int round = 0; round < test.rounds; ++round) one_round(pipes, agreement.rank(), test, round);
    EXPECT_EQ(pipes.proxy().failure(), "");
    pipes.proxy().finish(true);  // some ranks are still at it
    EXPECT_EQ(pipes.proxy().failure(), "");
  });
}

TEST_F(SocketPipes, MessagesOfAllLengthsArrive) {
  expect_right({2, {1, 1, 0, 0}, 128, 60, 3000});
  expect_right({2, {1, 1, 0, 0}, 60 << 10, 8, 6'000'000});
}
TEST_F(SocketPipes, ChannelsShareAConnection) {
  expect_right({2, {3, 2, 20, 0}, 256, 20, 9000});
  expect_right({3, {2, 2, 30, 0}, 4096, 12, 300'000});
  expect_right({5, {1, 1, 30, 0}, 1024, 8, 40'000});
}

/// A rank that has left in order has taken all it needs, and sent all that others need.
TEST_F(SocketPipes, WhoEndsFirstHasSentAllThatOthersWaitFor) {
  constexpr std::size_t kBytes = std::size_t{60 << 10} * kPipeSlots;
  as_ranks(2, [](const Agreement& agreement) {
    auto pipes = std::make_unique<HostPipes>(agreement.rank(), 2, 60 << 10, HostPipes::Style{1, 1, 0, 0},
                                             messenger_of(agreement));
    std::vector<std::byte> memory(kBytes, std::byte{5});
    const HostPipes::Part none{nullptr, 0};
    if (agreement.rank() == 0) {
      const HostPipes::Part nothing[] = {none, none};
      const HostPipes::Part sends[] = {none, {memory.data(), memory.size()}};
      pipes->exchange(sends, nothing, 1);
      pipes->proxy().finish(true);
      pipes.reset();
      agreement.meet();
      return;
    }
    // Nothing is read before the other has left.
    std::vector<std::byte> in(kBytes);
    const HostPipes::Part nothing[] = {none, none};
    const HostPipes::Part receives[] = {{in.data(), in.size()}, none};
    pipes->exchange(nothing, receives, 2);
    EXPECT_EQ(in, memory);
    agreement.meet();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(pipes->proxy().failure(), "");
  });
}

/// As the system does it for a process that is killed: nothing is said before.
TEST_F(SocketPipes, WhoIsGoneIsNamedAtOnce) {
  as_ranks(2, [](const Agreement& agreement) {
    if (agreement.rank() == 1) {
      SocketMesh mesh = connect_peers(agreement, {0}, 1);
      mesh.by_channel[0].clear();
      return;
    }
    HostPipes pipes(0, 2, 128, {1, 1, 0, 0}, messenger_of(agreement));
    std::vector<std::byte> in(2000);
    const HostPipes::Part none{nullptr, 0};
    const HostPipes::Part nothing[] = {none, none};
    const HostPipes::Part receives[] = {none, {in.data(), in.size()}};
    pipes.exchange(nothing, receives, 1);  // without a time limit
    EXPECT_EQ(pipes.missing(1), 1U);
    EXPECT_EQ(pipes.proxy().failure().substr(0, 23), "connection to rank 1: c") << pipes.proxy().failure();
  });
}

/// One stream by itself, against a socket that the test reads and writes.
class OneStream : public SocketPipes {
 protected:
  struct Header {
    std::uint32_t channel, bytes;
  };
  /// body(stream, other end)
  template <class Body>
  static void run(const Body& body) {
    as_ranks(2, [&](const Agreement& agreement) {
      SocketMesh mesh = connect_peers(agreement, {1 - agreement.rank()}, 1);
      static Socket other;
      if (agreement.rank() == 1) other = std::move(mesh.by_channel[0][0].socket);
      agreement.meet();
      if (agreement.rank() == 1) return;
      SocketStream stream(std::move(mesh.by_channel[0][0]));
      body(stream, other);
      other.close();
    });
  }
  static void put(const Socket& to, Header header, const std::string& text) {
    const auto soon = SocketClock::now() + std::chrono::seconds(20);
    EXPECT_TRUE(write_all(to, &header, sizeof(header), soon));
    EXPECT_TRUE(write_all(to, text.data(), text.size(), soon));
  }
  template <class Until>
  static void read_until(SocketStream& stream, SocketStream::Done& done, const Until& until) {
    const auto late = SocketClock::now() + std::chrono::seconds(20);
    while (!until() && SocketClock::now() < late) (void)stream.read(done);
    EXPECT_TRUE(until());
  }
};

TEST_F(OneStream, AMessageWaitsForItsReceiver) {
  run([](SocketStream& stream, const Socket& other) {
    SocketStream::Done done(2, false);
    std::string first(3, ' '), second(5, ' ');
    stream.receive(0, 7, first.data(), first.size());
    put(other, {9, 5}, "later");
    put(other, {7, 3}, "now");
    for (int turn = 0; turn < 100; ++turn) EXPECT_TRUE(stream.read(done));
    EXPECT_FALSE(done[0]);  // it comes behind one that nobody is ready for
    stream.receive(1, 9, second.data(), second.size());
    read_until(stream, done, [&] { return done[0] && done[1]; });
    EXPECT_EQ(first, "now");
    EXPECT_EQ(second, "later");
  });
}

TEST_F(OneStream, MessagesMayComeByteByByte) {
  run([](SocketStream& stream, const Socket& other) {
    SocketStream::Done done(2, false);
    std::string first(8, '.'), second(8, '.');
    stream.receive(0, 1, first.data(), first.size());
    stream.receive(1, 1, second.data(), second.size());
    std::string all;
    for (const std::string text : {"abc", "defg"}) {
      const Header header{1, static_cast<std::uint32_t>(text.size())};
      all.append(reinterpret_cast<const char*>(&header), sizeof(header));
      all += text;
    }
    for (const char letter : all) {
      EXPECT_TRUE(write_all(other, &letter, 1, SocketClock::now() + std::chrono::seconds(20)));
      for (int turn = 0; turn < 20; ++turn) EXPECT_TRUE(stream.read(done));
    }
    read_until(stream, done, [&] { return done[0] && done[1]; });
    EXPECT_EQ(first, "abc.....");
    EXPECT_EQ(second, "defg....");
  });
}

TEST_F(OneStream, AMessageThatIsTooLongIsRefused) {
  run([](SocketStream& stream, const Socket& other) {
    SocketStream::Done done(1, false);
    std::string place(3, '.');
    stream.receive(0, 1, place.data(), place.size());
    put(other, {1, 4}, "four");
    EXPECT_THROW(read_until(stream, done, [&] { return bool(done[0]); }), DeviceError);
    EXPECT_EQ(place, "...");
  });
}

/// The other end takes what is written as it likes; what it says last counts though it takes nothing any
/// more.
TEST_F(OneStream, WhatHasArrivedCountsWhereNothingCanBeSent) {
  run([](SocketStream& stream, Socket& other) {
    SocketStream::Done done(3, false);
    std::string place(4, '.');
    const std::string much(8 << 20, 'm');
    stream.receive(0, 1, place.data(), place.size());
    stream.send(1, 2, much.data(), much.size());
    stream.write(done);
    EXPECT_FALSE(done[1]);  // the system keeps no 8 MiB
    put(other, {1, 4}, "last");
    put(other, {~0U, 0}, "");  // nothing follows
    other.close();             // with bytes unread: the connection is reset
    read_until(stream, done, [&] { return bool(done[0]); });
    EXPECT_EQ(place, "last");
    read_until(stream, done, [&] { return !stream.read(done); });
    stream.send(2, 2, much.data(), 10);
    stream.write(done);
    EXPECT_TRUE(done[1] && done[2]);  // who has left needs nothing
  });
}

}  // namespace
}  // namespace tapa::device
