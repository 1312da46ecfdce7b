// The all-to-all of the device engine with threads of the host as devices: every byte of every block,
// whatever the sizes, the places of the receive buffers and the delays of ranks, and what happens when a rank
// is gone.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "host_machine.hpp"
#include "small_tuning.hpp"

namespace tapa::device {
namespace {

using Bytes = std::vector<std::byte>;

std::byte content(int from, int to, Word op, Word at) {
  return static_cast<std::byte>(from * 31 + to * 7 + static_cast<int>(op * 13 + at * 3 + (at >> 8)));
}

/// Bytes of the block from one rank to another in call `op`: what both compute.
Word block_bytes(unsigned seed, int from, int to, Word op) {
  std::minstd_rand random(seed + static_cast<unsigned>(from * 101 + to * 13) +
                          static_cast<unsigned>(op) * 7U);
  random.discard(3);
  switch (random() % 4) {
    case 0:
      return 0;
    case 1:
      return random() % 97;
    case 2:
      return 97 + random() % 600;
    default:
      return random() % 6000;
  }
}

/// The buffers of a rank in a call: blocks with gaps between them, at odd places.
class Buffers {
 public:
  Buffers(unsigned seed, int rank, int size, Word op) : rank_(rank), size_(size), op_(op) {
    std::minstd_rand random(seed * 31 + static_cast<unsigned>(rank) + static_cast<unsigned>(op) * 17U);
    Word send_at = random() % 40;
    Word receive_at = random() % 40;
    for (int peer = 0; peer < size; ++peer) {
      blocks_.push_back(
          {send_at, receive_at, block_bytes(seed, rank, peer, op), block_bytes(seed, peer, rank, op)});
      send_at += blocks_.back().send_bytes + random() % 24;
      receive_at += blocks_.back().receive_bytes + random() % 24;
    }
    send_.assign(send_at + 1, std::byte{0});
    receive_.assign(receive_at + 1, kUntouched);
    for (int peer = 0; peer < size; ++peer) {
      const Place& place = blocks_[static_cast<std::size_t>(peer)];
      for (Word at = 0; at < place.send_bytes; ++at) send_[place.send_at + at] = content(rank, peer, op, at);
    }
  }

  /// `window`: the receive buffer is this registered window, or is staged to.
  void fill(Call& call, Word window) {
    for (int peer = 0; peer < size_; ++peer) {
      const Place& place = blocks_[static_cast<std::size_t>(peer)];
      call.blocks[peer] = {send_.data() + place.send_at, receive_.data() + place.receive_at, place.send_bytes,
                           place.receive_bytes};
      call.targets[peer] = pack(window == Target::kStaging ? Target{} : Target{window, place.receive_at});
    }
  }

  [[nodiscard]] std::byte* receive() { return receive_.data(); }

  void expect_right() const {
    Bytes expected(receive_.size(), kUntouched);
    for (int peer = 0; peer < size_; ++peer) {
      const Place& place = blocks_[static_cast<std::size_t>(peer)];
      for (Word at = 0; at < place.receive_bytes; ++at) {
        expected[place.receive_at + at] = content(peer, rank_, op_, at);
      }
    }
    const auto wrong = std::ranges::mismatch(receive_, expected).in1 - receive_.begin();
    EXPECT_EQ(static_cast<std::size_t>(wrong), receive_.size())
        << "first wrong byte; rank " << rank_ << " of " << size_ << ", call " << op_;
  }

 private:
  static constexpr std::byte kUntouched{0xee};
  struct Place {
    Word send_at, receive_at, send_bytes, receive_bytes;
  };
  int rank_;
  int size_;
  Word op_;
  std::vector<Place> blocks_;
  Bytes send_;
  Bytes receive_;
};

/// All ranks make `calls` calls, each in a thread of its own that nothing holds back.
void exchange(int size, Word calls, const LaunchStyle& style, bool windows) {
  HostMachine machine(size, small_tuning());
  std::vector<std::vector<Buffers>> buffers(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    for (Word op = 0; op < calls; ++op) {
      buffers[static_cast<std::size_t>(rank)].emplace_back(style.seed, rank, size, op);
      if (op < 8) machine.window(op, rank) = buffers[static_cast<std::size_t>(rank)].back().receive();
    }
  }
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      for (Word op = 0; op < calls; ++op) {
        Call call = machine.call(rank);
        // Some ranks register what others do not.
        const bool window = windows && op < 8 && (op + static_cast<Word>(rank)) % 3 != 0;
        buffers[static_cast<std::size_t>(rank)][op].fill(call, window ? op : Target::kStaging);
        LaunchStyle own = style;
        own.seed += static_cast<unsigned>(rank) + static_cast<unsigned>(op) * 64U;
        HostMachine::run(call, own);
      }
    });
  }
  ranks.clear();
  for (const auto& of_rank : buffers) {
    for (const Buffers& made : of_rank) made.expect_right();
  }
}

class Sizes : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Sizes, testing::Range(1, 6));

TEST_P(Sizes, EveryByteThroughStaging) {
  for (unsigned seed = 1; seed <= 3; ++seed) exchange(GetParam(), 20, {.lanes = 1, .seed = seed}, false);
}
TEST_P(Sizes, EveryByteIntoWindowsOfSomeRanks) {
  for (unsigned seed = 1; seed <= 6; ++seed) exchange(GetParam(), 8, {.lanes = 1, .seed = seed}, true);
}
TEST_P(Sizes, UnderRandomDelays) {
  exchange(GetParam(), 8, {.lanes = 1, .delays = 20, .seed = 11}, true);
}
TEST_P(Sizes, WithTeamsOfSeveralLanes) {
  exchange(GetParam(), 6, {.lanes = 3, .delays = 200, .seed = 5}, true);
}

/// One call of all ranks with blocks of `bytes`; the machine keeps its memory from call to call.
void one_size(HostMachine& machine, Word bytes, Word op) {
  const int size = machine.region().size;
  std::vector<Bytes> sent(static_cast<std::size_t>(size), Bytes(bytes * static_cast<Word>(size)));
  std::vector<Bytes> got = sent;
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    auto& mine = sent[static_cast<std::size_t>(rank)];
    for (Word at = 0; at < mine.size(); ++at)
      mine[at] = content(rank, static_cast<int>(at / std::max(bytes, Word{1})), op, at);
    ranks.emplace_back([&, rank] {
      Call call = machine.call(rank);
      for (int peer = 0; peer < size; ++peer) {
        const Word at = bytes * static_cast<Word>(peer);
        call.blocks[peer] = {sent[static_cast<std::size_t>(rank)].data() + at,
                             got[static_cast<std::size_t>(rank)].data() + at, bytes, bytes};
      }
      HostMachine::run(call, {});
    });
  }
  ranks.clear();
  for (int rank = 0; rank < size; ++rank) {
    for (int peer = 0; peer < size; ++peer) {
      const auto block = [&](const Bytes& all, int index) {
        return all.begin() + static_cast<std::ptrdiff_t>(bytes) * index;
      };
      EXPECT_TRUE(std::equal(block(got[static_cast<std::size_t>(rank)], peer),
                             block(got[static_cast<std::size_t>(rank)], peer + 1),
                             block(sent[static_cast<std::size_t>(peer)], rank)))
          << "from " << peer << " to " << rank << ", call " << op;
    }
  }
}

TEST(Protocol, NumbersOfCallsPassThirtyTwoBits) {
  HostMachine machine(2, small_tuning());
  for (int rank = 0; rank < 2; ++rank) machine.local(rank).sequence = 0xfffffffc;
  for (Word op = 0; op < 8; ++op) one_size(machine, 90 + op % 3 * 50, op);
  EXPECT_EQ(machine.local(0).sequence, 0x100000004U);
}

TEST(Protocol, LinesThatAreRarelyUsedLoseTheirOldFlags) {
  HostMachine machine(2, small_tuning());  // renews every 8 calls
  for (Word op = 1; op <= 2; ++op) one_size(machine, 96, op);
  for (Word op = 3; op <= 9; ++op) one_size(machine, op == 8 ? 500 : 1, op);
  for (int mailbox = 0; mailbox < 2; ++mailbox) {
    for (Word line = 0; line < machine.region().mailbox_lines(); ++line) {
      const Line got = HostTeam::load_line(machine.view(0).mailbox(1, mailbox) + line);
      EXPECT_GE(got.low_flag, 7U) << "mailbox " << mailbox << ", line " << line;
      EXPECT_GE(got.high_flag, 7U) << "mailbox " << mailbox << ", line " << line;
    }
  }
}

/// A call in which all blocks have `bytes` bytes, from and to `memory`.
Call same_blocks(HostMachine& machine, int rank, Bytes& memory, Word bytes, Word timeout) {
  Call call = machine.call(rank, timeout);
  const Word half = memory.size() / 2;
  for (int peer = 0; peer < machine.region().size; ++peer) {
    const Word at = bytes * static_cast<Word>(peer);
    call.blocks[peer] = {memory.data() + at, memory.data() + half + at, bytes, bytes};
  }
  return call;
}

TEST(Protocol, ARankThatDoesNotArriveIsNamed) {
  for (const Word bytes : {Word{40}, Word{3000}}) {
    HostMachine machine(3, small_tuning());
    std::vector<Bytes> memory(3, Bytes(2 * 3 * bytes));
    std::vector<std::jthread> ranks;
    for (const int rank : {0, 1}) {
      ranks.emplace_back([&, rank] {
        HostMachine::run(
            same_blocks(machine, rank, memory[static_cast<std::size_t>(rank)], bytes, 300'000'000), {});
      });
    }
    ranks.clear();
    for (const int rank : {0, 1}) {
      EXPECT_EQ(machine.failure(rank).missing[2], 1U) << "the number of the call";
      EXPECT_EQ(machine.failure(rank).missing[1 - rank], 0U);
      // Later calls end at once, and write nothing to peers.
      const auto began = std::chrono::steady_clock::now();
      HostMachine::run(
          same_blocks(machine, rank, memory[static_cast<std::size_t>(rank)], bytes, 60'000'000'000), {});
      EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
    }
  }
}

TEST(Protocol, AWindowThatIsGoneIsAFailureOfTheCall) {
  HostMachine machine(2, small_tuning());
  std::vector<Bytes> memory(2, Bytes(2 * 2 * 3000));
  std::vector<std::jthread> ranks;
  for (const int rank : {0, 1}) {
    ranks.emplace_back([&, rank] {
      Call call = same_blocks(machine, rank, memory[static_cast<std::size_t>(rank)], 3000, 200'000'000);
      if (rank == 1) call.targets[0] = pack({5, 0});
      HostMachine::run(call, {});
    });
  }
  ranks.clear();
  EXPECT_EQ(machine.failure(0).no_window[1], 1U);
  EXPECT_EQ(machine.failure(1).missing[0], 1U);
}

/// A call by copy engines, which are this thread; teams store the last `stored` bytes of each block.
void by_copies(HostMachine& machine, Call call, Word window, Word bytes, Word stored,
               const LaunchStyle& style) {
  const Word place = bytes * static_cast<Word>(call.rank);
  call.expected = pack({window, place});
  call.copied = copied_bytes(bytes, stored, machine.region());
  HostMachine::run(call, style, Part::begin);
  for (int peer = 0; peer < machine.region().size; ++peer) {
    if (peer == call.rank) continue;
    std::memcpy(machine.window(window, peer) + place, call.blocks[peer].send, call.copied);
    std::atomic_ref(machine.view(peer).words(call.rank, 0).arrived)
        .store(machine.local(call.rank).copied[peer]);
  }
  const std::jthread beside([&] { HostMachine::run(call, style, Part::join); });
  HostMachine::run(call, style, Part::copies);
}

/// Calls by copy engines and others in turns, on `size` ranks.
void alternate(int size, Word bytes, Word calls, const Tuning& tuning = small_tuning()) {
  HostMachine machine(size, tuning);
  const auto half = static_cast<std::size_t>(size) * bytes;
  std::vector<std::vector<Bytes>> memory(static_cast<std::size_t>(size),
                                         std::vector<Bytes>(calls, Bytes(2 * half)));
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    for (Word op = 0; op < calls; ++op) {
      Bytes& own = memory[static_cast<std::size_t>(rank)][op];
      machine.window(op, rank) = own.data() + half;
      for (Word at = 0; at < half; ++at)
        own[at] = content(rank, static_cast<int>(at / bytes), op, at % bytes);
    }
  }
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      for (Word op = 0; op < calls; ++op) {
        Call call = same_blocks(machine, rank, memory[static_cast<std::size_t>(rank)][op], bytes, 0);
        for (int peer = 0; peer < size; ++peer)
          call.targets[peer] = pack({op, bytes * static_cast<Word>(peer)});
        const LaunchStyle style{.delays = 10,
                                .seed = static_cast<unsigned>(op * 8) + static_cast<unsigned>(rank)};
        if (op % 3 == 1) {
          HostMachine::run(call, style);
        } else {
          by_copies(machine, call, op, bytes, op * 200, style);
        }
      }
    });
  }
  ranks.clear();
  for (int rank = 0; rank < size; ++rank) {
    for (Word op = 0; op < calls; ++op) {
      for (Word at = 0; at < half; ++at) {
        ASSERT_EQ(memory[static_cast<std::size_t>(rank)][op][half + at],
                  content(static_cast<int>(at / bytes), rank, op, at % bytes))
            << "rank " << rank << ", call " << op << ", byte " << at;
      }
    }
  }
}

TEST_P(Sizes, ByCopyEnginesAndNotInTurns) {
  alternate(GetParam(), 1000, 8);
}
TEST_P(Sizes, ByCopyEnginesWithFewChannels) {
  for (const int channels : {1, 2}) {
    Tuning tuning = small_tuning();
    tuning.line_channels = tuning.bulk_channels = channels;
    alternate(GetParam(), 1000, 8, tuning);
  }
}

TEST(Protocol, CopiesToAnotherPlaceThanTheReceiversAreAFailure) {
  HostMachine machine(2, small_tuning());
  std::vector<Bytes> memory(2, Bytes(2 * 2 * 1000));
  std::vector<std::jthread> ranks;
  for (const int rank : {0, 1}) {
    machine.window(0, rank) = memory[static_cast<std::size_t>(rank)].data() + 2000;
    ranks.emplace_back([&, rank] {
      Call call = same_blocks(machine, rank, memory[static_cast<std::size_t>(rank)], 1000, 500'000'000);
      for (const int peer : {0, 1}) {
        call.targets[peer] = pack({0, 1000 * static_cast<Word>(peer) + (rank == 1 ? 128U : 0U)});
      }
      by_copies(machine, call, 0, 1000, 100, {});
    });
  }
  ranks.clear();
  EXPECT_EQ(machine.failure(0).elsewhere[1], 1U);
}

}  // namespace
}  // namespace tapa::device
