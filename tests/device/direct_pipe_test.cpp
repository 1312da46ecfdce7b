// Pipes whose two ends are devices: threads as teams and lanes, slots and words in memory of both.
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "device/pipe.hpp"
#include "host_team.hpp"

namespace tapa::device {
namespace {

constexpr std::size_t kSlot = 2048;

/// One pipe, and what its two ends know each for itself.
class DirectPipe {
 public:
  DirectPipe(int lanes, int delays, Word timeout) : lanes_(lanes), delays_(delays), timeout_(timeout) {
    for (End& end : ends_) end.own->sequence = 1;
  }

  void run(bool sends, std::vector<std::byte>& memory, unsigned seed) {
    End& end = ends_[sends ? 0 : 1];
    Word* const said = sends ? &filled_ : &emptied_;
    const PipeJob job{
        {said, sends ? &emptied_ : &filled_, &left_[sends ? 1 : 0], nullptr, slots_.data(), &end.passed},
        memory.data(),
        memory.size(),
        &end.missing,
        sends};
    const PipeTurn turn{kSlot, timeout_, end.state.get(), end.own.get()};
    TeamMeeting meeting(lanes_);
    std::vector<std::jthread> threads;
    for (int lane = 0; lane < lanes_; ++lane) {
      threads.emplace_back([&, lane] {
        HostTeam team(meeting, 0, lane, seed * 31U + static_cast<unsigned>(lane), delays_);
        run_pipe(team, turn, job, 1);
      });
    }
  }
  /// The rank of an end makes no more calls.
  void leave(bool sends) { std::atomic_ref(left_[sends ? 0 : 1]).store(1); }
  [[nodiscard]] Word missing(bool sends) const { return ends_[sends ? 0 : 1].missing; }

 private:
  struct End {
    Word passed = 0, missing = 0;
    std::unique_ptr<LocalState> state = std::make_unique<LocalState>();
    std::unique_ptr<LocalState> own = std::make_unique<LocalState>();
  };
  int lanes_, delays_;
  Word timeout_;
  alignas(8) Word filled_ = 0;
  alignas(8) Word emptied_ = 0;
  Word left_[2]{};  ///< of the sender, of the receiver
  std::vector<std::byte> slots_ = std::vector<std::byte>(kPipeSlots * kSlot);
  End ends_[2];
};

std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> made(bytes);
  for (std::size_t at = 0; at < bytes; ++at) made[at] = static_cast<std::byte>(at * 7 + at / 251 + seed);
  return made;
}

void expect_messages_arrive(int lanes, int delays) {
  DirectPipe pipe(lanes, delays, 0);
  unsigned seed = 0;
  for (const std::size_t bytes :
       {1UL, 255UL, kSlot, kSlot + 1, 2 * kSlot, 40000UL, kSlot * kPipeSlots, 3 * kSlot * kPipeSlots + 17}) {
    std::vector<std::byte> out = pattern(bytes, ++seed), in(bytes);
    {
      const std::jthread receiver([&] { pipe.run(false, in, seed + 100); });
      pipe.run(true, out, seed);
    }
    EXPECT_EQ(in, out) << bytes << " bytes";
  }
  EXPECT_EQ(pipe.missing(true) + pipe.missing(false), 0U);
}

TEST(DirectPipe, MessagesOfAllLengthsArrive) {
  expect_messages_arrive(1, 0);
  expect_messages_arrive(3, 20);
}

TEST(DirectPipe, AShortMessageWaitsForNoReceiver) {
  DirectPipe pipe(1, 0, 0);
  std::vector<std::byte> out = pattern(kSlot * kPipeSlots, 1), in(out.size());
  pipe.run(true, out, 1);
  pipe.run(false, in, 2);
  EXPECT_EQ(in, out);
}

TEST(DirectPipe, WhoDoesNotComeIsNoted) {
  DirectPipe pipe(2, 0, 100'000'000);
  std::vector<std::byte> in(10), out(kSlot * kPipeSlots + 1);
  pipe.run(false, in, 1);
  pipe.run(true, out, 1);
  EXPECT_EQ(pipe.missing(false), 1U);
  EXPECT_EQ(pipe.missing(true), 1U);
  EXPECT_EQ(in, std::vector<std::byte>(in.size(), std::byte{0xff})) << "what looks like a result";
}

TEST(DirectPipe, NobodyWaitsForAnEndThatHasLeft) {
  for (const bool sends : {true, false}) {
    DirectPipe pipe(2, 0, 0);  // without a time limit nothing else would end the wait
    pipe.leave(!sends);
    std::vector<std::byte> memory(kSlot * kPipeSlots + 1);
    pipe.run(sends, memory, 1);
    EXPECT_EQ(pipe.missing(sends), 1U);
  }
}

TEST(DirectPipe, WhatWasSentBeforeItLeftArrives) {
  DirectPipe pipe(2, 0, 0);
  std::vector<std::byte> out = pattern(kSlot * kPipeSlots, 3), in(out.size());
  pipe.run(true, out, 1);
  pipe.leave(true);
  pipe.run(false, in, 2);
  EXPECT_EQ(in, out);
}

}  // namespace
}  // namespace tapa::device
