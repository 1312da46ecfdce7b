// Pipes over TCP: threads as ranks, teams and lanes, the loopback interface.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agreement_threads.hpp"
#include "device/device_error.hpp"
#include "device/socket_messenger.hpp"
#include "pipe_rounds.hpp"
#include "socket_helpers.hpp"

namespace tapa::device {
namespace {

using SocketPipes = OnLoopback;

std::unique_ptr<Messenger> messenger_of(const Agreement& agreement) {
  SocketMesh mesh = connect_peers(agreement, all_but(agreement.rank(), agreement.size()), 1);
  return std::make_unique<SocketMessenger>(std::move(mesh.by_channel[0]), mesh.interfaces);
}

struct Case {
  int ranks;
  HostPipes::Style style;
  std::size_t chunk;
  int rounds;
  std::size_t most;
};

void one_round(HostPipes& pipes, int rank, const Case& test, int round) {
  const std::size_t wrong = wrong_in_round(
      pipes, static_cast<std::size_t>(rank), static_cast<std::size_t>(test.ranks),
      static_cast<unsigned>(round), shorter_than(test.most), static_cast<unsigned>(round * 100 + rank));
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

/// As a program does that ends by an error of its own.
TEST_F(SocketPipes, WhoHasLeftIsNotWaitedFor) {
  as_ranks(3, [](const Agreement& agreement) {
    const int rank = agreement.rank();
    HostPipes pipes(rank, 3, 128, {1, 1, 0, 0}, messenger_of(agreement));
    if (rank == 2) {
      pipes.proxy().finish(true);
      agreement.meet();
      return;
    }
    std::vector<std::byte> out(2000), in(4000);
    const HostPipes::Part none{nullptr, 0};
    const HostPipes::Part other{out.data(), 2000};
    const HostPipes::Part sends[] = {rank == 0 ? none : other, rank == 1 ? none : other, none};
    const HostPipes::Part receives[] = {rank == 0 ? none : HostPipes::Part{in.data(), 2000},
                                        rank == 1 ? none : HostPipes::Part{in.data(), 2000},
                                        {in.data() + 2000, 2000}};
    pipes.exchange(sends, receives, 1);  // without a time limit
    EXPECT_EQ(pipes.missing(2), 1U);
    EXPECT_EQ(pipes.missing(1 - rank), 0U);
    EXPECT_EQ(pipes.proxy().failure(), "");
    agreement.meet();  // these two leave no earlier
    pipes.proxy().finish(true);
  });
}

/// What nobody will take does not hold up the end.
TEST_F(SocketPipes, WhoHasLeftTakesNothing) {
  as_ranks(2, [](const Agreement& agreement) {
    HostPipes pipes(agreement.rank(), 2, 128, {1, 1, 0, 300'000'000}, messenger_of(agreement));
    if (agreement.rank() == 1) {
      pipes.proxy().finish(true);
      return;
    }
    std::vector<std::byte> out(128 * kPipeSlots * 4);
    const HostPipes::Part none{nullptr, 0};
    const HostPipes::Part sends[] = {none, {out.data(), out.size()}};
    const HostPipes::Part nothing[] = {none, none};
    pipes.exchange(sends, nothing, 1);
    const auto began = std::chrono::steady_clock::now();
    pipes.proxy().finish(true);
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
  });
}

/// A program that forks may exit in the child with all that it holds.
TEST_F(SocketPipes, AForkedProcessEndsNothing) {
  as_ranks(2, [](const Agreement& agreement) {
    auto pipes = std::make_unique<HostPipes>(agreement.rank(), 2, 128, HostPipes::Style{1, 1, 0, 0},
                                             messenger_of(agreement));
    if (agreement.rank() == 0) {
      const pid_t child = ::fork();
      if (child == 0) {
        pipes.reset();
        ::_exit(0);
      }
      int status = 1;
      EXPECT_EQ(TEMP_FAILURE_RETRY(::waitpid(child, &status, 0)), child);
      EXPECT_EQ(status, 0);
    }
    agreement.meet();
    const Case test{2, {1, 1, 0, 0}, 128, 4, 3000};
    for (int round = 0; round < test.rounds; ++round) one_round(*pipes, agreement.rank(), test, round);
    EXPECT_EQ(pipes->proxy().failure(), "");
    pipes->proxy().finish(true);
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
      static Descriptor other;
      if (agreement.rank() == 1) other = std::move(mesh.by_channel[0][0].socket);
      agreement.meet();
      if (agreement.rank() == 1) return;
      SocketStream stream(std::move(mesh.by_channel[0][0]));
      body(stream, other);
      other.close();
    });
  }
  static void put(const Descriptor& to, Header header, const std::string& text) {
    EXPECT_TRUE(write_few(to, &header, sizeof(header)));
    EXPECT_TRUE(write_few(to, text.data(), text.size()));
  }
  template <class Until>
  static void read_until(SocketStream& stream, SocketStream::Done& done, const Until& until) {
    const auto late = soon();
    while (!until() && std::chrono::steady_clock::now() < late) (void)stream.read(done);
    EXPECT_TRUE(until());
  }
};

TEST_F(OneStream, AMessageWaitsForItsReceiver) {
  run([](SocketStream& stream, const Descriptor& other) {
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

/// Its header comes along with the message before: nothing is left in the system that could tell of it.
TEST_F(SocketPipes, AMessageWithoutBytesWaitsForItsReceiver) {
  as_ranks(2, [](const Agreement& agreement) {
    const std::unique_ptr<Messenger> messenger = messenger_of(agreement);
    messenger->provide(2);
    const char sent = 'a';
    char got = ' ';
    const Address first{1 - agreement.rank(), 1}, empty{1 - agreement.rank(), 2};
    if (agreement.rank() == 0) {
      messenger->send(0, first, &sent, 1);
      messenger->send(1, empty, nullptr, 0);
    } else {
      messenger->receive(0, first, &got, 1);
      for (int turn = 0; turn < 100; ++turn) {
        messenger->progress();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      EXPECT_TRUE(messenger->done(0));
      messenger->receive(1, empty, nullptr, 0);
    }
    const auto all_done = [&] { return messenger->done(0) && messenger->done(1); };
    for (const auto late = soon(); !all_done() && std::chrono::steady_clock::now() < late;)
      messenger->progress();
    EXPECT_TRUE(all_done());
    agreement.meet();  // a word that the other leaves would be something to read
    messenger->abandon();
  });
}

/// A receiver that is slow gets all of it though the sender has left long before, with words to it unread.
TEST_F(SocketPipes, LeavingLosesNothingOfWhoIsSlow) {
  as_ranks(2, [](const Agreement& agreement) {
    const std::unique_ptr<Messenger> messenger = messenger_of(agreement);
    const auto progress_until_done = [&](std::size_t request) {
      for (const auto late = soon(); !messenger->done(request) && std::chrono::steady_clock::now() < late;)
        messenger->progress();
      EXPECT_TRUE(messenger->done(request));
    };
    constexpr std::size_t kBytes = std::size_t{1} << 20;
    std::vector<char> memory(kBytes, agreement.rank() == 0 ? 'm' : '.');
    const Address other{1 - agreement.rank(), 1};
    messenger->provide(2);
    if (agreement.rank() == 0) {
      messenger->send(0, other, memory.data(), kBytes);
    } else {
      messenger->send(0, other, "unread", 6);
    }
    progress_until_done(0);
    agreement.meet();
    if (agreement.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2500));
      messenger->receive(1, other, memory.data(), kBytes);
      progress_until_done(1);
      EXPECT_EQ(memory, std::vector<char>(kBytes, 'm'));
    }
    messenger->abandon();
  });
}

TEST_F(OneStream, MessagesMayComeByteByByte) {
  run([](SocketStream& stream, const Descriptor& other) {
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
      EXPECT_TRUE(write_few(other, &letter, 1));
      for (int turn = 0; turn < 20; ++turn) EXPECT_TRUE(stream.read(done));
    }
    read_until(stream, done, [&] { return done[0] && done[1]; });
    EXPECT_EQ(first, "abc.....");
    EXPECT_EQ(second, "defg....");
  });
}

TEST_F(OneStream, AMessageThatIsTooLongIsRefused) {
  run([](SocketStream& stream, const Descriptor& other) {
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
  run([](SocketStream& stream, Descriptor& other) {
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
