// Ranks that part, one of them after an error, with threads of the host as ranks; and what who is still in a
// call makes of it.
#include "device/teardown.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "host_machine.hpp"
#include "small_tuning.hpp"

namespace tapa::device {
namespace {

void say(const HostMachine& machine, int rank, int peer, Teardown teardown) {
  std::atomic_ref(machine.view(peer).teardowns().of[rank]).store(static_cast<Word>(teardown));
}

TornDown part(const HostMachine& machine, int rank, bool well, std::chrono::milliseconds limit) {
  const auto hear = [&] {
    Teardowns said{};
    for (int peer = 0; peer < kMaxRanks; ++peer)
      said.of[peer] = std::atomic_ref(machine.view(rank).teardowns().of[peer]).load();
    return said;
  };
  return tear_down(
      rank, machine.region().size, well, limit,
      [&](int peer, Teardown teardown) { say(machine, rank, peer, teardown); }, hear);
}

/// What part() says on each rank when the ranks come one after the other, `failed` of them after an error.
std::vector<char> teardown(int size, int failed) {
  const HostMachine machine(size, small_tuning());
  std::vector<char> well(static_cast<std::size_t>(size), 2);
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5 * (size - rank)));
      well[static_cast<std::size_t>(rank)] =
          part(machine, rank, rank != failed, std::chrono::minutes(1)).well ? 1 : 0;
    });
  }
  ranks.clear();
  return well;
}

TEST(Teardown, AllAreWell) {
  EXPECT_EQ(teardown(1, -1), std::vector<char>(1, 1));
  EXPECT_EQ(teardown(2, -1), std::vector<char>(2, 1));
  EXPECT_EQ(teardown(5, -1), std::vector<char>(5, 1));
}

TEST(Teardown, NobodyWaitsForOneThatFailed) {
  for (int failed = 0; failed < 3; ++failed)
    EXPECT_EQ(teardown(3, failed), std::vector<char>(3, 0)) << failed;
}

TEST(Teardown, WhoNeverComesIsNamedWhenTheTimeIsOver) {
  const HostMachine machine(4, small_tuning());
  say(machine, 1, 0, Teardown::well);
  const auto began = std::chrono::steady_clock::now();
  const TornDown parted = part(machine, 0, true, std::chrono::milliseconds(20));
  EXPECT_FALSE(parted.well);
  EXPECT_EQ(parted.missing, 2);
  EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(20));
  EXPECT_EQ(machine.view(3).teardowns().of[0], static_cast<Word>(Teardown::failed));
  for (const int peer : {2, 3}) say(machine, peer, 0, Teardown::well);
  EXPECT_TRUE(part(machine, 0, true, std::chrono::milliseconds(0)).well);  // who is there needs no time
}

// Ranks that a wire joins are no others of a list: this one's place is not among them.
TEST(Teardown, ARankThatIsNoneOfThemWaitsForAll) {
  std::vector<Word> at_others(2, static_cast<Word>(Teardown::none));
  Teardowns here{};
  const auto say = [&](int place, Teardown teardown) {
    at_others[static_cast<std::size_t>(place)] = static_cast<Word>(teardown);
  };
  const auto hear = [&] { return here; };
  here.of[1] = static_cast<Word>(Teardown::well);
  EXPECT_EQ(tear_down(-1, 2, true, std::chrono::milliseconds(1), say, hear).missing, 0);
  here.of[0] = static_cast<Word>(Teardown::well);
  EXPECT_TRUE(tear_down(-1, 2, true, std::chrono::milliseconds(1), say, hear).well);
  EXPECT_EQ(at_others, std::vector<Word>(2, static_cast<Word>(Teardown::well)));
  EXPECT_FALSE(tear_down(-1, 2, false, std::chrono::milliseconds(1), say, hear).well);
  EXPECT_EQ(at_others, std::vector<Word>(2, static_cast<Word>(Teardown::failed)));
}

/// A call in which each rank sends `bytes` bytes to each.
Call exchange(HostMachine& machine, int rank, std::vector<std::byte>& memory, Word bytes) {
  Call call = machine.call(rank);
  const auto size = static_cast<Word>(machine.region().size);
  for (int peer = 0; peer < machine.region().size; ++peer) {
    const Word at = static_cast<Word>(peer) * bytes;
    call.blocks[peer] = {memory.data() + at, memory.data() + size * bytes + at, bytes, bytes};
  }
  return call;
}

TEST(Teardown, WhoIsStillInACallLearnsOfItWithoutATimeOut) {
  for (const Teardown teardown : {Teardown::well, Teardown::failed}) {
    for (const Word bytes : {Word{0}, Word{50}, Word{3000}}) {
      HostMachine machine(2, small_tuning());
      std::vector<std::byte> memory(4 * bytes);
      std::jthread other([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        say(machine, 1, 0, teardown);
      });
      HostMachine::run(exchange(machine, 0, memory, bytes), {});
      EXPECT_EQ(machine.failure(0).parted[1], 1U) << bytes << " bytes";
      EXPECT_EQ(machine.failure(0).missing[1], 0U);
    }
  }
}

// Nobody takes what lies there for a result: of the call, and of all after it.
TEST(Teardown, WhatDidNotArriveIsNoNumber) {
  for (const Word bytes : {Word{4}, Word{52}, Word{3000}}) {
    HostMachine machine(2, small_tuning());
    say(machine, 1, 0, Teardown::failed);
    for (const Word first : {1, 0}) {  // the own block is there in the first call
      std::vector<std::byte> memory(4 * bytes, std::byte{7});
      HostMachine::run(exchange(machine, 0, memory, bytes), {3, 0, 1});
      for (Word at = (2 + first) * bytes; at + sizeof(float) <= 4 * bytes; at += sizeof(float)) {
        float number = 0;
        std::memcpy(&number, memory.data() + at, sizeof(number));
        EXPECT_TRUE(std::isnan(number)) << at << " of " << bytes << " bytes";
      }
    }
  }
}

TEST(Teardown, WhatDidNotArriveIsNoNumberInItsRowsAlone) {
  constexpr std::uint32_t kRow = 12, kPitch = 20, kRows = 9;
  HostMachine machine(2, small_tuning());
  say(machine, 1, 0, Teardown::failed);
  std::vector<std::byte> memory(std::size_t{4} * kPitch * kRows, std::byte{7});
  auto call = machine.call<StridedCall>(0);
  const Strides strides{kRow, kRows, kPitch, 1, 0};
  for (int peer = 0; peer < 2; ++peer) {
    std::byte* const at = memory.data() + static_cast<std::size_t>(peer) * kPitch * kRows;
    call.blocks[peer] = {rows_at(at, strides), rows_at(at + std::size_t{2} * kPitch * kRows, strides),
                         kRow * kRows, kRow * kRows};
  }
  HostMachine::run(call, {});
  const std::byte* const from_other = memory.data() + std::size_t{3} * kPitch * kRows;
  for (std::size_t at = 0; at < std::size_t{kPitch} * kRows; ++at)
    EXPECT_EQ(from_other[at], at % kPitch < kRow ? std::byte{0xff} : std::byte{7}) << at;
}

// That it sends another number of bytes counts, and is seen however soon it leaves.
TEST(Teardown, WhoDisagreesAndLeavesIsFoundToDisagree) {
  for (const Word bytes : {Word{50}, Word{3000}}) {
    HostMachine machine(2, small_tuning());
    std::vector<std::byte> memory(4 * bytes);
    const std::uint32_t flag = line_flag(1, bytes + 8);
    *machine.view(0).mailbox(1, mailbox_of(1)) = Line{0, flag, 0, flag};
    say(machine, 1, 0, Teardown::failed);
    HostMachine::run(exchange(machine, 0, memory, bytes), {});
    EXPECT_EQ(machine.failure(0).from[1].call, 1U) << bytes << " bytes";
    EXPECT_EQ(machine.failure(0).parted[1], 0U) << bytes << " bytes";
  }
}

/// A team that looks whether it waits in vain when the other rank has done its call and parted, not before.
class SlowTeam : public HostTeam {
 public:
  struct Gates {
    std::atomic<bool> waits{false}, parted{false};
  };
  SlowTeam(TeamMeeting& meeting, int index, Gates& gates)
      : HostTeam(meeting, index, 0, 1, 0), gates_(gates) {}

  bool looks(std::uint32_t spins) {
    gates_.waits = true;
    gates_.waits.notify_all();
    gates_.parted.wait(false);
    return HostTeam::looks(spins);
  }

 private:
  Gates& gates_;
};

TEST(Teardown, WhatCameBeforeItIsTaken) {
  constexpr Word kBytes = 20;
  HostMachine machine(2, small_tuning());
  std::vector<std::byte> mine(4 * kBytes, std::byte{1}), theirs(4 * kBytes, std::byte{2});
  SlowTeam::Gates gates;
  std::jthread other([&] {
    gates.waits.wait(false);
    HostMachine::run(exchange(machine, 1, theirs, kBytes), {});
    say(machine, 1, 0, Teardown::well);
    gates.parted = true;
    gates.parted.notify_all();
  });
  Call call = exchange(machine, 0, mine, kBytes);
  call.channels = 1;
  for (int index = 0; index < 2; ++index) {
    TeamMeeting meeting(1);
    SlowTeam team(meeting, index, gates);
    run_team(team, call);
  }
  EXPECT_TRUE(gates.waits);
  EXPECT_EQ(machine.failure(0).parted[1], 0U);
  EXPECT_EQ(mine[3 * kBytes], std::byte{2});
  EXPECT_EQ(mine[4 * kBytes - 1], std::byte{2});
}

}  // namespace
}  // namespace tapa::device
