// Numbers of all ranks combined, against what MPI's collective has.
#include "run/small_reduce.hpp"

#include <gtest/gtest.h>
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "tapa/errors_return.hpp"

namespace tapa {
namespace {

using Numbers = std::vector<std::uint64_t>;

/// The ranks in an order that is not MPI's, and a communicator of their own.
class SmallReduceTest : public testing::Test {
 protected:
  SmallReduceTest() {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    MPI_Comm_set_errhandler(comm_, errors_return());
    MPI_Comm_size(comm_, &ranks_);
    in_world_.resize(static_cast<std::size_t>(ranks_));
    std::iota(in_world_.rbegin(), in_world_.rend(), 0);
    std::rotate(in_world_.begin(), in_world_.begin() + ranks_ / 3, in_world_.end());
    int own = 0;
    MPI_Comm_rank(comm_, &own);
    rank_ = static_cast<int>(std::ranges::find(in_world_, own) - in_world_.begin());
  }
  ~SmallReduceTest() override {
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_free(&comm_);
  }

  /// What a rank has in a call; every rank can tell it of all.
  static Numbers numbers(int rank, int call, std::size_t count) {
    std::mt19937_64 random(static_cast<std::uint64_t>(rank * 1000 + call));
    Numbers all(count);
    for (auto& number : all) number = random() | random();
    return all;
  }
  static std::vector<Combine> how(int call, std::size_t count) {
    std::mt19937 random(static_cast<unsigned>(call));
    std::vector<Combine> all(count);
    for (auto& one : all) one = std::array{Combine::sum, Combine::max, Combine::bit_and}[random() % 3];
    return all;
  }
  void start(SmallReduce& reduce, int call, std::size_t count, int tag) const {
    const MessageSpace space{comm_, in_world_, {}};
    reduce.start(space, tag, rank_, ranks_, numbers(rank_, call, count), how(call, count));
  }
  /// What MPI_Allreduce makes of them.
  [[nodiscard]] Numbers expected(int call, std::size_t count) const {
    const Numbers own = numbers(rank_, call, count);
    const auto ways = how(call, count);
    Numbers results(count), some(count);
    for (const auto& [way, op] :
         {std::pair{Combine::sum, MPI_SUM}, {Combine::max, MPI_MAX}, {Combine::bit_and, MPI_BAND}}) {
      MPI_Allreduce(own.data(), some.data(), static_cast<int>(count), MPI_UINT64_T, op, MPI_COMM_WORLD);
      for (std::size_t i = 0; i < count; ++i) results[i] = ways[i] == way ? some[i] : results[i];
    }
    return results;
  }
  static Numbers finish(SmallReduce& reduce) {
    while (!reduce.test()) sched_yield();
    EXPECT_FALSE(reduce.pending());
    return result(reduce);
  }
  static Numbers result(const SmallReduce& reduce) {
    return {reduce.result().begin(), reduce.result().end()};
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  std::vector<int> in_world_;
  int rank_ = 0;
  int ranks_ = 0;
};

TEST_F(SmallReduceTest, SumsMaximaAndCommonBitsAreThoseOfAllreduce) {
  SmallReduce reduce;
  EXPECT_FALSE(reduce.pending());
  int call = 0;
  for (const std::size_t count : {1U, 2U, 3U, 17U, 20'000U, 1U}) {
    for (int repeat = 0; repeat < 5; ++repeat, ++call) {
      start(reduce, call, count, 5);  // the same tag again and again
      EXPECT_TRUE(reduce.pending());
      EXPECT_EQ(finish(reduce), expected(call, count)) << "call " << call;
      EXPECT_TRUE(reduce.test()) << "it stays";
    }
  }
}

// One call after the other without anything between, so that some ranks are ahead.
TEST_F(SmallReduceTest, RanksMayBeAhead) {
  constexpr int calls = 500;
  std::mt19937 random(static_cast<unsigned>(rank_));
  SmallReduce reduce;
  std::vector<Numbers> got;
  for (int call = 0; call < calls; ++call) {
    if (random() % 64 == 0) sched_yield();
    start(reduce, call, 3, 5);
    got.push_back(finish(reduce));
  }
  for (int call = 0; call < calls; call += 50)
    EXPECT_EQ(got[static_cast<std::size_t>(call)], expected(call, 3));
}

// Each rank looks at them in an order of its own.
TEST_F(SmallReduceTest, SeveralAreUnderWayAtOnce) {
  constexpr std::size_t many = 12;
  std::mt19937 random(static_cast<unsigned>(rank_ + 1));
  std::vector<SmallReduce> reduces(many);
  for (int round = 0; round < 10; ++round) {
    std::vector<std::size_t> order(many);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::shuffle(order, random);
    const auto call = [&](std::size_t i) { return round * 100 + static_cast<int>(i); };
    for (const std::size_t i : order) start(reduces[i], call(i), 1 + i, static_cast<int>(i));
    while (std::ranges::any_of(reduces, [](const SmallReduce& r) { return r.pending(); })) {
      SmallReduce& any = reduces[random() % many];
      if (any.pending() && !any.test()) sched_yield();
    }
    for (std::size_t i = 0; i < many; ++i) EXPECT_EQ(result(reduces[i]), expected(call(i), 1 + i)) << i;
  }
}

// Those of one tag in the same order, those of others between.
TEST_F(SmallReduceTest, OneIsUnderWayWhileAnotherIsRepeated) {
  SmallReduce slow, fast;
  start(slow, 1, 4, 1);
  for (int call = 2; call < 22; ++call) {
    start(fast, call, 2, 2);
    EXPECT_EQ(finish(fast), expected(call, 2));
    if (rank_ % 2 == 0 && slow.pending()) static_cast<void>(slow.test());
  }
  EXPECT_EQ(finish(slow), expected(1, 4));
}

TEST_F(SmallReduceTest, OneThatWasGivenUpDoesNotDisturbTheNext) {
  constexpr int given_up = 10;
  SmallReduce reduce;
  for (int call = 0; call < 40; ++call) {
    start(reduce, call, 5, given_up + call);
    // Some have sent by then, some wait, some have not begun.
    for (int look = 0; look < (rank_ + call) % 4; ++look) {
      if (reduce.test()) break;
    }
    if (call % 3 == 0) {
      reduce.give_up();
      EXPECT_FALSE(reduce.pending() && ranks_ > 1);
    }
    start(reduce, 1000 + call, 5, 2);  // gives up what is unfinished
    EXPECT_EQ(finish(reduce), expected(1000 + call, 5)) << call;
  }
  SmallReduce unfinished;
  start(unfinished, 0, 5, given_up + 100);  // ends with it
}

// The result of one that was given up comes late, into memory that nobody else has.
TEST_F(SmallReduceTest, NumbersThatComeLateChangeNothing) {
  if (ranks_ < 2) return;
  constexpr int lost = 1, used = 2, after = 3;  // tags
  SmallReduce reduce;
  std::uint64_t number = 0;
  if (rank_ == 1) {
    start(reduce, 0, 1, lost);
    MPI_Request told = MPI_REQUEST_NULL;
    MPI_Irecv(nullptr, 0, MPI_BYTE, in_world_[0], after, comm_, &told);
    for (int is_told = 0; is_told == 0; MPI_Test(&told, &is_told, MPI_STATUS_IGNORE))
      EXPECT_FALSE(reduce.test());  // it waits for the result
  } else if (rank_ == 0) {
    MPI_Recv(&number, 1, MPI_UINT64_T, in_world_[1], lost, comm_, MPI_STATUS_IGNORE);
    EXPECT_EQ(number, numbers(1, 0, 1)[0]);
    MPI_Send(nullptr, 0, MPI_BYTE, in_world_[1], after, comm_);
  }
  start(reduce, 1, 1, used);
  const Numbers got = finish(reduce);
  EXPECT_EQ(got, expected(1, 1));
  number = 111;
  if (rank_ == 0) {
    MPI_Send(&number, 1, MPI_UINT64_T, in_world_[1], lost, comm_);
    MPI_Send(nullptr, 0, MPI_BYTE, in_world_[1], after, comm_);
  } else if (rank_ == 1) {
    MPI_Recv(nullptr, 0, MPI_BYTE, in_world_[0], after, comm_,
             MPI_STATUS_IGNORE);  // in order: behind the late one
  }
  EXPECT_EQ(result(reduce), got);
}

// It comes when all others have looked in vain.
TEST_F(SmallReduceTest, ALateRankIsWaitedFor) {
  for (int late = 0; late < ranks_; ++late) {
    constexpr int looked = 9;  // a tag
    SmallReduce reduce;
    if (rank_ == late) {
      for (int i = 1; i < ranks_; ++i)
        MPI_Recv(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, looked, comm_, MPI_STATUS_IGNORE);
    }
    start(reduce, late, 2, 3);
    if (rank_ != late) {
      int early = 0;
      for (int look = 0; look < 50; ++look) {
        early += reduce.test() ? 1 : 0;
        sched_yield();
      }
      EXPECT_EQ(early, 0) << "rank " << late << " was not there";
      MPI_Send(nullptr, 0, MPI_BYTE, in_world_[static_cast<std::size_t>(late)], looked, comm_);
    }
    EXPECT_EQ(finish(reduce), expected(late, 2));
  }
}

TEST_F(SmallReduceTest, CanBeMoved) {
  SmallReduce first;
  start(first, 1, 2, 1);
  SmallReduce second = std::move(first);
  EXPECT_FALSE(first.pending());  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
  start(first, 2, 2, 2);
  EXPECT_EQ(finish(first), expected(2, 2));
  EXPECT_EQ(finish(second), expected(1, 2));
}

}  // namespace
}  // namespace tapa
