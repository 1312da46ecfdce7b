#include "transport/shared_block.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace tapa {
namespace {

TEST(BlockPieces, CoverABlockOnce) {
  for (std::size_t bytes : {1UL, 4095UL, 4096UL, 16383UL, 16384UL, 20480UL, 32768UL, 32769UL, 81920UL,
                            1000003UL, 100000000UL, (5UL << 30) + 1}) {
    const BlockPieces pieces(bytes);
    EXPECT_GE(pieces.count, 1U);
    EXPECT_LE(pieces.count, BlockPieces::kMost);
    EXPECT_EQ(pieces.each % 4096, 0U);
    std::size_t at = 0;
    for (std::size_t i = 0; i < pieces.count; ++i) {
      EXPECT_EQ(pieces.begin(i), at);
      EXPECT_GT(pieces.bytes(i, 1), 0U);
      at += pieces.bytes(i, 1);
    }
    EXPECT_EQ(at, bytes);
    EXPECT_EQ(pieces.bytes(0, pieces.count), bytes);
  }
}

TEST(SharedBlock, EachTakesHalfOfWhatIsLeft) {
  SharedBlock block{};
  EXPECT_FALSE(block.take(1, 9)) << "of memory that is zero";
  block.offer(7, 4711);
  EXPECT_FALSE(block.take(6, 9)) << "of an earlier round";
  EXPECT_FALSE(block.take(8, 9)) << "of a later round";
  EXPECT_EQ(block.address(), 4711U);
  std::size_t next = 0;
  for (const std::size_t count : {5U, 2U, 1U, 1U}) {
    const auto part = block.take(7, 9);
    ASSERT_TRUE(part);
    EXPECT_EQ(part->first, next);
    EXPECT_EQ(part->count, count);
    next += part->count;
  }
  EXPECT_FALSE(block.take(7, 9));
  EXPECT_FALSE(block.take(7, 9));
}

TEST(SharedBlock, OneMayTakeAllThatIsLeft) {
  SharedBlock block{};
  block.offer(1, 0);
  EXPECT_EQ(block.take(1, 4)->count, 2U);
  const auto rest = block.take(1, 4, true);
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->first, 2U);
  EXPECT_EQ(rest->count, 2U);
  EXPECT_FALSE(block.take(1, 4, true));
}

TEST(SharedBlock, TheReaderWaitsForWhatTheSenderHasTaken) {
  SharedBlock block{};
  block.offer(1, 0);
  EXPECT_TRUE(block.take(1, 3));
  EXPECT_TRUE(block.take(1, 3));
  EXPECT_TRUE(block.moved(0));
  EXPECT_FALSE(block.moved(3));
  block.tell_moved(2, true);
  EXPECT_FALSE(block.moved(3));
  block.tell_moved(1, true);
  EXPECT_TRUE(block.moved(3));
  EXPECT_FALSE(block.failed());
  block.offer(2, 0);
  EXPECT_TRUE(block.moved(0));
}

TEST(SharedBlock, WhatCouldNotBeMovedCountsToo) {
  SharedBlock block{};
  block.offer(1, 0);
  block.tell_moved(1, true);
  block.tell_moved(2, false);
  EXPECT_TRUE(block.failed());
  EXPECT_FALSE(block.moved(4));
  block.tell_moved(1, true);
  EXPECT_TRUE(block.moved(4));
}

TEST(SharedBlock, AfterItIsClosedNobodyTakesAPiece) {
  SharedBlock block{};
  block.offer(5, 0);
  EXPECT_EQ(block.take(5, 4)->count, 2U);
  EXPECT_EQ(block.close(5, 4), 2U);
  EXPECT_FALSE(block.take(5, 4));
}

TEST(SharedBlock, TwoThreadsInManyRounds) {
  constexpr std::size_t pieces = 5;
  constexpr std::uint64_t rounds = 20'000;
  SharedBlock block{};
  std::vector<std::uint64_t> moved(pieces);  // the round in which each was moved last
  std::atomic<std::uint64_t> shown = 0;      // the sender has come to this round
  std::thread sender([&] {
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      shown.store(round, std::memory_order_release);
      while (shown.load(std::memory_order_acquire) == round) {  // the reader says when it has all
        if (const auto part = block.take(round, pieces)) {
          std::fill_n(moved.begin() + static_cast<std::ptrdiff_t>(part->first), part->count, round);
          block.tell_moved(part->count, true);
        } else {
          std::this_thread::yield();
        }
      }
    }
  });
  std::size_t wrong = 0;
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    while (shown.load(std::memory_order_acquire) != round) std::this_thread::yield();
    block.offer(round, round);
    std::size_t own = 0;
    while (const auto part = block.take(round, pieces, round % 3 == 0)) {
      std::fill_n(moved.begin() + static_cast<std::ptrdiff_t>(part->first), part->count, round);
      own += part->count;
    }
    while (!block.moved(pieces - own)) std::this_thread::yield();
    for (const std::uint64_t last : moved) wrong += last == round ? 0U : 1U;
    shown.store(0, std::memory_order_release);
  }
  sender.join();
  EXPECT_EQ(wrong, 0U);
}

}  // namespace
}  // namespace tapa
