// The shared memory of a node: who takes what, and gives it back.
#include "world/node_arena.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "arena_files.hpp"

namespace tapa {
namespace {

using namespace arena_test;

TEST(NodeArena, WhatOneRankWritesTheOthersSee) {
  const auto files = make_files(2);
  const ArenaLayout layout{2, 4, page_bytes()};
  const auto a = map_arena(files, layout);
  const auto b = map_arena(files, layout);
  a->place(0).package = 3;
  a->place(1).cores[14] = 5;
  a->bell(1)->rings = 7;
  *a->ring(0, 1) = std::byte{8};
  *a->ring(1, 0) = std::byte{9};
  *a->unit(2) = std::byte{10};
  *a->unit(3) = std::byte{11};
  EXPECT_EQ(b->place(0).package, 3U);
  EXPECT_EQ(b->place(1).cores[14], 5U);
  EXPECT_EQ(b->bell(1)->rings, 7U);
  EXPECT_EQ(b->bell(0)->rings, 0U);
  EXPECT_EQ(*b->ring(0, 1), std::byte{8});
  EXPECT_EQ(*b->ring(1, 0), std::byte{9});
  EXPECT_EQ(*b->unit(2), std::byte{10});
  EXPECT_EQ(*b->unit(3), std::byte{11});
}

TEST(NodeArena, TheLowestUnitsAreTakenFirst) {
  const auto arena = make_arena(4, 10);
  const auto a = arena->take(4);
  const auto b = arena->take(2);
  const auto c = arena->take(4);
  EXPECT_EQ(first_of(a), 0U);
  EXPECT_EQ(first_of(b), 4U);
  EXPECT_EQ(first_of(c), 6U);
  EXPECT_EQ(a->count, 4U);
  EXPECT_EQ(first_of(arena->take(1)), std::nullopt) << "all are taken";
  leave_all(*arena, *b, 1);
  EXPECT_EQ(first_of(arena->take(3)), std::nullopt) << "not so many in one piece";
  leave_all(*arena, *a, 1);
  EXPECT_EQ(first_of(arena->take(6)), 0U) << "those of two that were neighbours";
  leave_all(*arena, *c, 1);
  EXPECT_EQ(first_of(arena->take(3)), 6U);
}

TEST(NodeArena, ARegionIsFreeWhenTheLastMemberHasLeftIt) {
  const auto arena = make_arena(3, 3);
  for (int repeat = 0; repeat < 3; ++repeat) {
    const auto region = arena->take(3);
    ASSERT_TRUE(region.has_value());
    for (int member = 0; member < 3; ++member) {
      EXPECT_FALSE(arena->take(1).has_value()) << member << " have left";
      arena->leave(*region, 1);
    }
  }
  arena->leave({}, 5);  // of a communicator that has none
  EXPECT_TRUE(arena->take(3).has_value());
}

TEST(NodeArena, ARegionThatNobodyHasSeenIsGivenBackByOne) {
  const auto arena = make_arena(3, 3);
  const auto region = arena->take(3);
  arena->give_back(*region);
  arena->give_back({});
  const auto again = arena->take(3);
  ASSERT_TRUE(again.has_value());
  leave_all(*arena, *again, 4);
  EXPECT_EQ(arena->take(2)->rounds, 4U) << "its members are counted anew";
}

TEST(NodeArena, TheFirstRegionCanBeReserved) {
  const auto arena = make_arena(4, 8);
  arena->take_first(4);
  EXPECT_EQ(first_of(arena->take(3)), 4U);
  leave_all(*arena, {0, 4, 0}, 9);
  const auto again = arena->take(4);
  EXPECT_EQ(first_of(again), 0U);
  EXPECT_EQ(again->rounds, 9U);
}

// A unit's numbers would be those of rounds to come.
TEST(NodeArena, RoundsOfARegionAreNeverBelowAnyUsedOfItsUnits) {
  constexpr std::size_t units = 24;
  for (unsigned seed = 0; seed < 50; ++seed) {
    const auto arena = make_arena(8, units);
    std::mt19937 random(seed);
    std::vector<std::uint64_t> used(units);
    std::vector<ArenaRegion> taken;
    for (int step = 0; step < 400; ++step) {
      if (taken.empty() || random() % 2 == 0) {
        if (const auto region = arena->take(1 + random() % 8)) {
          for (std::size_t i = 0; i < region->count; ++i)
            ASSERT_GE(region->rounds, used[region->first + i]) << "unit " << i << ", step " << step;
          taken.push_back(*region);
        }
        continue;
      }
      std::swap(taken[random() % taken.size()], taken.back());
      const ArenaRegion region = taken.back();
      taken.pop_back();
      if (random() % 4 == 0) {
        arena->give_back(region);
        continue;
      }
      const std::uint64_t rounds = region.rounds + random() % 100;
      std::fill_n(used.begin() + region.first, region.count, rounds);
      const std::size_t knows = random() % region.count;  // the others have left when fewer were used
      for (std::size_t member = 0; member < region.count; ++member)
        arena->leave(region, member == knows ? rounds : region.rounds);
    }
  }
}

// A communicator whose set-up has failed leaves what it never used.
TEST(NodeArena, MembersThatMadeNoRoundsLowerNone) {
  const auto arena = make_arena(2, 4);
  const auto a = arena->take(2);
  const auto b = arena->take(2);
  leave_all(*arena, *a, 5);
  leave_all(*arena, *b, 100);
  const auto both = arena->take(4);
  EXPECT_EQ(both->rounds, 100U);
  leave_all(*arena, *both, 0);
  EXPECT_EQ(arena->take(4)->rounds, 100U);
}

std::size_t file_memory(const std::vector<ShmSegment>& files) {
  std::size_t sum = 0;
  for (const ShmSegment& file : files) {
    struct stat status {};
    EXPECT_EQ(fstat(file.fd(), &status), 0);
    sum += static_cast<std::size_t>(status.st_blocks) * 512;
  }
  return sum;
}

// Kernels give the memory of a part of a file back; QEMU's user mode may not.
bool gives_memory_back() {
  const auto arena = make_arena(1, 1);
  *arena->unit(0) = std::byte{1};
  return madvise(arena->unit(0), page_bytes(), MADV_REMOVE) == 0 && *arena->unit(0) == std::byte{0};
}

TEST(NodeArena, MemoryOfWhatIsRarelyUsedIsGivenBack) {
  if (!gives_memory_back()) GTEST_SKIP() << "this kernel keeps the memory of files";
  constexpr std::size_t ranks = 2;
  constexpr std::size_t regions = 40;
  const auto files = make_files(ranks);
  const auto arena = map_arena(files, {ranks, ranks * regions, page_bytes()});
  const std::size_t unit = arena->layout().unit_bytes();
  const auto is_all = [&](const ArenaRegion& region, std::byte value) {
    for (std::size_t i = 0; i < region.count; ++i) {
      const std::span own(arena->unit(region.first + i), unit);
      if (!std::ranges::all_of(own, [&](std::byte b) { return b == value; })) return false;
    }
    return true;
  };
  std::vector<ArenaRegion> taken;
  for (std::size_t i = 0; i < regions; ++i) {
    taken.push_back(*arena->take(ranks));
    for (std::size_t member = 0; member < ranks; ++member)
      std::fill_n(arena->unit(taken[i].first + member), unit, static_cast<std::byte>(i + 1));
  }
  const std::size_t before = file_memory(files);
  EXPECT_GE(before, regions * ranks * unit);
  const auto untouched = [&](std::size_t i) { return is_all(taken[i], static_cast<std::byte>(i + 1)); };
  leave_all(*arena, taken[regions - 2], 1);
  EXPECT_EQ(file_memory(files), before - ranks * unit);
  EXPECT_TRUE(untouched(regions - 3) && untouched(regions - 1)) << "only its own";
  EXPECT_TRUE(is_all(taken[regions - 2], std::byte{0}));
  EXPECT_EQ(arena->take(ranks)->first, taken[regions - 2].first);  // what was looked at has memory again
  for (const ArenaRegion& region : taken) leave_all(*arena, region, 1);
  EXPECT_LE(file_memory(files), before / 4);
  EXPECT_TRUE(untouched(0)) << "that of the first is kept";
  EXPECT_EQ(arena->take(ranks)->rounds, 1U);
}

TEST(NodeArena, ContextsAreUniqueAndEnd) {
  for (const unsigned most : {1U, 63U, 64U, 65U, 100U, static_cast<unsigned>(ArenaLayout::kContexts)}) {
    const auto files = make_files(2);
    const std::array arenas{map_arena(files, {2, 2, page_bytes()}), map_arena(files, {2, 2, page_bytes()})};
    std::set<unsigned> taken;
    for (unsigned i = 0; i < most; ++i) {
      const auto context = arenas[i % 2]->contexts().take(most);
      ASSERT_TRUE(context.has_value()) << i << " of " << most;
      EXPECT_LT(*context, most);
      EXPECT_TRUE(taken.insert(*context).second) << *context;
    }
    EXPECT_EQ(arenas[0]->contexts().take(most), std::nullopt);
    for (const unsigned context : {most - 1, most / 2, 0U}) {
      arenas[1]->contexts().give(context);
      EXPECT_EQ(arenas[0]->contexts().take(most), context);
      EXPECT_EQ(arenas[0]->contexts().take(most), std::nullopt);
    }
    EXPECT_TRUE(arenas[0]->take(2).has_value()) << "units know nothing of it";
    EXPECT_FALSE(arenas[0]->take(2).has_value());
  }
}

}  // namespace
}  // namespace tapa
