// A rank without any memory from the moment on at which an exchange begins: it carries it through, and nobody
// waits. What it had to say about an error is shorter.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "../run/refused_memory.hpp"
#include "shm_ranks.hpp"
#include "transport/arena.hpp"
#include "transport/shm_node.hpp"
#include "transport/transport.hpp"

namespace tapa {
namespace {

using namespace shm_test;

thread_local bool is_poor = false;

/// Each rank's `body`, of which rank 0 has no memory while calls are under way.
std::size_t with_a_poor_rank(std::size_t ranks, const Sizes& sizes, bool packed,
                             const std::function<std::size_t(Rank&)>& body) {
  is_spared = [] { return !is_poor; };
  std::size_t wrong = 0;
  {
    const Refusing refusing(1);
    wrong = in_threads(ranks, sizes, packed, [&](Rank& rank) {
      if (rank.buffers().self() == 0) rank.watch([](bool under_way) { is_poor = under_way; });
      return body(rank);
    });
  }
  is_spared = nullptr;
  return wrong;
}

TEST(ShmNoMemory, ForBlocksInBuffers) {
  const auto wrong = with_a_poor_rank(4, skewed, false, [](Rank& rank) {
    std::size_t sum = 0;
    for (int number = 0; number < 10; ++number)
      sum += rank.uniform_call(number, 8, number % 2 == 0) + rank.call(number);
    return sum;
  });
  EXPECT_EQ(wrong, 0U);
}

// They are read in their senders' memory: by the kernel, which shows them or not, or by both ends.
TEST(ShmNoMemory, ForBlocksThatStayWithTheirSenders) {
  constexpr pid_t nobody = 0x7ffffff0;
  for (const pid_t pid : {getpid(), nobody}) {
    for (const bool together : {false, true}) {
      const auto wrong = with_a_poor_rank(8, skewed, false, [&](Rank& rank) {
        rank.buffers().tell_together(together);
        std::size_t sum = 0;
        for (int number = 0; number < 2; ++number) {
          rank.buffers().let_stay(std::vector<pid_t>(8, pid), 100);  // again: who was asked for pieces stops
          sum += rank.call(number);
          rank.buffers().let_stay(std::vector<pid_t>(8, pid), 100);
          sum += rank.uniform_call(number, 50'000, false);
        }
        return sum;
      });
      EXPECT_EQ(wrong, 0U) << (pid == nobody) << together;
    }
  }
}

/// Then the kernel shows it.
TEST(ShmNoMemory, ToMapWhatOthersHave) {
  auto* const memory = static_cast<std::byte*>(Arenas::of_process().allocate(Arenas::kShortest));
  const auto view = [&] {
    return ArenaViews::of_process().view(getpid(), Arenas::of_process().find(memory, 1),
                                         reinterpret_cast<std::uintptr_t>(memory), 1);
  };
  static_cast<void>(ArenaViews::of_process());
  {
    const Refusing refusing(1);
    EXPECT_EQ(view(), nullptr);
    EXPECT_TRUE(Refusing::some());
  }
  EXPECT_NE(view(), nullptr);
  EXPECT_TRUE(Arenas::of_process().free(memory));
}

TEST(ShmNoMemory, ForCallsByPairs) {
  const Sizes next = [](std::size_t src, std::size_t dst, int) { return dst == (src + 1) % 8 ? 8U : 0U; };
  const auto wrong = with_a_poor_rank(8, next, false, [](Rank& rank) {
    rank.know_sizes(true);
    std::size_t sum = 0;
    for (int number = 0; number < static_cast<int>(PairSlots::kBefore) + 10; ++number)
      sum += rank.call(number);
    return sum;
  });
  EXPECT_EQ(wrong, 0U);
}

/// Such a message stays in its ring until it is expected.
TEST(ShmNoMemory, ForMessagesThatNobodyExpectsYet) {
  const std::size_t capacity = ShmRing::kMaxCapacity;
  std::array<std::vector<std::uint64_t>, 2> memory;
  for (auto& words : memory) words.resize(ShmRing::bytes_for(capacity) / 8 + 1);
  std::array<Doorbell, 2> bells{};
  const auto node = [&](std::size_t own) {
    const ShmRing out(memory[own].data(), capacity), in(memory[1 - own].data(), capacity);
    return ShmNode(std::vector<RingEnds>(2, RingEnds{out, in, &bells[1 - own]}), own, &bells[own]);
  };
  ShmNode from = node(0), to = node(1);
  std::array<std::array<std::byte, 100>, 3> sent{}, got{};
  std::array<Piece, 3> pieces, places;
  ShmNode::Completions done;
  done.reserve(8);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    sent[i].fill(static_cast<std::byte>(i + 1));
    pieces[i] = Piece(sent[i]);
    places[i] = Piece(got[i]);
    from.send(1, static_cast<int>(i), {&pieces[i], 1}, static_cast<int>(i), &done);
  }
  {
    const Refusing refusing(1);
    for (int turn = 0; turn < 3; ++turn) EXPECT_NO_THROW(static_cast<void>(to.progress()));
    EXPECT_TRUE(Refusing::some());
  }
  for (std::size_t i = 0; i < got.size(); ++i) to.recv(0, static_cast<int>(i), {&places[i], 1}, 10, &done);
  while (to.progress()) {
  }
  EXPECT_EQ(got, sent);
  EXPECT_EQ(std::ranges::count(done, 10), 3);
}

/// Who is sent more than it expects fails alone, after the end.
TEST(ShmNoMemory, ForWordsOfAnError) {
  const auto wrong = with_a_poor_rank(3, no_sizes, false, [](Rank& rank) {
    const bool poor = rank.buffers().self() == 0;
    bool failed = false;
    try {
      static_cast<void>(rank.uniform_call(0, poor ? 8 : 16, false));
    } catch (const TransportError& error) {
      failed = poor && error.out_of_memory();
    }
    rank.buffers().release();
    return rank.uniform_call(1, 8, false) + (failed == poor ? 0U : 1U);
  });
  EXPECT_EQ(wrong, 0U);
}

/// All give the exchange up, so that MPI can carry it out.
TEST(ShmNoMemory, ForWordsOfAnExchangeThatIsGivenUp) {
  const Sizes lengthy = [](std::size_t, std::size_t, int) { return std::size_t{3} << 20; };
  const auto wrong = with_a_poor_rank(4, lengthy, true, [](Rank& rank) {
    rank.take_rooms(false);
    bool failed = false;
    try {
      static_cast<void>(rank.call(0));
    } catch (const TransportError&) {
      failed = true;
    }
    return failed && rank.can_be_repeated() ? 0U : 1U;
  });
  EXPECT_EQ(wrong, 0U);
}

}  // namespace
}  // namespace tapa
