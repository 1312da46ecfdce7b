// The shared memory of a node: ranks as threads of one process, and as processes with a mapping of their own.
#include "world/node_arena.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "transport/shm_buffers.hpp"
#include "transport/shm_ring.hpp"

namespace tapa {
namespace {

constexpr std::size_t kMuch = std::numeric_limits<std::size_t>::max();

struct Part {
  std::size_t begin;
  std::size_t bytes;
  std::size_t alignment;
  const char* what;
};

std::vector<Part> parts_of(const ArenaLayout& layout) {
  std::vector<Part> parts{{0, sizeof(std::uint64_t), 1, "number"},
                          {layout.contexts_at(), ArenaLayout::kContexts / 8, 8, "contexts"},
                          {layout.entries_at(), layout.units * 16, 16, "entries"}};
  for (std::size_t rank = 0; rank < layout.ranks; ++rank) {
    parts.push_back({layout.rank_at(rank), sizeof(NodeArena::Place), alignof(NodeArena::Place), "place"});
    parts.push_back({layout.bell_at(rank), sizeof(Doorbell), ArenaLayout::kLine, "doorbell"});
    for (std::size_t to = 0; to < layout.ranks; ++to) {
      parts.push_back(
          {layout.ring_at(rank, to), ShmRing::bytes_for(layout.ring_capacity()), ArenaLayout::kLine, "ring"});
    }
  }
  for (std::size_t unit = 0; unit < layout.units; ++unit)
    parts.push_back({layout.unit_at(unit), ShmBuffers::region_bytes(), layout.page, "unit"});
  std::ranges::sort(parts, {}, &Part::begin);
  return parts;
}

TEST(ArenaLayout, PartsDoNotOverlapWhateverThePages) {
  for (const std::size_t page : {std::size_t{4096}, std::size_t{65536}}) {
    for (std::size_t ranks = 1; ranks <= 64; ++ranks) {
      for (const std::size_t units : {std::size_t{0}, ranks, 3 * ranks + 1, kMostRegions * ranks}) {
        const ArenaLayout layout{ranks, units, page};
        std::size_t end = 0;
        for (const Part& part : parts_of(layout)) {
          ASSERT_GE(part.begin, end) << part.what << ", " << ranks << " ranks, " << units << " units";
          ASSERT_EQ(part.begin % part.alignment, 0U) << part.what;
          end = part.begin + part.bytes;
        }
        ASSERT_LE(end, layout.file_bytes());
        ASSERT_TRUE(std::has_single_bit(layout.ring_capacity()));
      }
    }
  }
}

TEST(ArenaLayout, HasFewerUnitsOrNoneWhereAddressSpaceIsShort) {
  for (const std::size_t page : {std::size_t{4096}, std::size_t{65536}}) {
    for (const std::size_t ranks : {2U, 3U, 8U, 64U}) {
      auto layout = arena_layout(ranks, kMuch, page);
      for (std::size_t regions = kMostRegions; regions > 0; regions /= 2) {
        ASSERT_TRUE(layout.has_value()) << regions << " regions of " << ranks << " ranks";
        EXPECT_EQ(layout->units, regions * ranks);
        EXPECT_EQ(layout->ranks, ranks);
        EXPECT_EQ(layout->page, page);
        const std::size_t bytes = layout->file_bytes();
        EXPECT_EQ(arena_layout(ranks, bytes, page)->units, layout->units) << "it fits";
        layout = arena_layout(ranks, bytes - 1, page);
      }
      EXPECT_FALSE(layout.has_value()) << "not even one communicator";
      EXPECT_FALSE(arena_layout(ranks, 0, page).has_value());
    }
  }
  EXPECT_EQ(arena_layout(1, kMuch, 4096)->units, 0U) << "nobody to share them with";
}

ShmSegment make_file() {
  std::string why;
  auto file = ShmSegment::create(why);
  EXPECT_TRUE(file) << why;
  return std::move(*file);
}

std::shared_ptr<NodeArena> map_arena(const ShmSegment& file, const ArenaLayout& layout) {
  std::string why;
  auto arena = NodeArena::map(file.fd(), layout, why);
  EXPECT_NE(arena, nullptr) << why;
  return arena;
}

std::shared_ptr<NodeArena> make_arena(std::size_t ranks, std::size_t units) {
  return map_arena(make_file(), {ranks, units, page_bytes()});
}

/// The first unit of what was taken, or nothing.
std::optional<std::size_t> first_of(const std::optional<ArenaRegion>& region) {
  return region ? std::optional<std::size_t>(region->first) : std::nullopt;
}

void leave_all(NodeArena& arena, const ArenaRegion& region, std::uint64_t rounds) {
  for (std::size_t member = 0; member < region.count; ++member) arena.leave(region, rounds);
}

TEST(NodeArena, WhatOneRankWritesTheOthersSee) {
  const ShmSegment file = make_file();
  const ArenaLayout layout{2, 4, page_bytes()};
  const auto a = map_arena(file, layout);
  const auto b = map_arena(file, layout);
  a->place(0).package = 3;
  a->place(1).cores[14] = 5;
  a->bell(1)->rings = 7;
  *a->ring(0, 1) = std::byte{8};
  *a->ring(1, 0) = std::byte{9};
  *a->unit(3) = std::byte{10};
  EXPECT_EQ(b->place(0).package, 3U);
  EXPECT_EQ(b->place(1).cores[14], 5U);
  EXPECT_EQ(b->bell(1)->rings, 7U);
  EXPECT_EQ(b->bell(0)->rings, 0U);
  EXPECT_EQ(*b->ring(0, 1), std::byte{8});
  EXPECT_EQ(*b->ring(1, 0), std::byte{9});
  EXPECT_EQ(*b->unit(3), std::byte{10});
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

std::size_t file_memory(const ShmSegment& file) {
  struct stat status {};
  EXPECT_EQ(fstat(file.fd(), &status), 0);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

// Kernels give the memory of a part of a file back; QEMU's user mode may not.
bool gives_memory_back() {
  const ShmSegment file = make_file();
  const auto arena = map_arena(file, {1, 1, page_bytes()});
  *arena->unit(0) = std::byte{1};
  return madvise(arena->unit(0), page_bytes(), MADV_REMOVE) == 0 && *arena->unit(0) == std::byte{0};
}

TEST(NodeArena, MemoryOfWhatIsRarelyUsedIsGivenBack) {
  if (!gives_memory_back()) GTEST_SKIP() << "this kernel keeps the memory of files";
  constexpr std::size_t ranks = 2;
  constexpr std::size_t regions = 40;
  const ShmSegment file = make_file();
  const auto arena = map_arena(file, {ranks, ranks * regions, page_bytes()});
  const std::size_t unit = arena->layout().unit_bytes();
  const auto all_of = [&](const ArenaRegion& region) {
    return std::span(arena->unit(region.first), region.count * unit);
  };
  std::vector<ArenaRegion> taken;
  for (std::size_t i = 0; i < regions; ++i) {
    taken.push_back(*arena->take(ranks));
    std::ranges::fill(all_of(taken.back()), static_cast<std::byte>(i + 1));
  }
  const std::size_t before = file_memory(file);
  EXPECT_GE(before, regions * ranks * unit);
  const auto untouched = [&](std::size_t i) {
    return std::ranges::all_of(all_of(taken[i]),
                               [&](std::byte b) { return b == static_cast<std::byte>(i + 1); });
  };
  leave_all(*arena, taken[regions - 2], 1);
  EXPECT_EQ(file_memory(file), before - ranks * unit);
  EXPECT_TRUE(untouched(regions - 3) && untouched(regions - 1)) << "only its own";
  EXPECT_TRUE(std::ranges::all_of(all_of(taken[regions - 2]), [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_EQ(arena->take(ranks)->first, taken[regions - 2].first);  // what was looked at has memory again
  for (const ArenaRegion& region : taken) leave_all(*arena, region, 1);
  EXPECT_LE(file_memory(file), before / 4);
  EXPECT_TRUE(untouched(0)) << "that of the first is kept";
  EXPECT_EQ(arena->take(ranks)->rounds, 1U);
}

TEST(NodeArena, ContextsAreUniqueAndEnd) {
  for (const unsigned most : {1U, 63U, 64U, 65U, 100U, static_cast<unsigned>(ArenaLayout::kContexts)}) {
    const ShmSegment file = make_file();
    const std::array arenas{map_arena(file, {2, 2, page_bytes()}), map_arena(file, {2, 2, page_bytes()})};
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

constexpr std::size_t kUnits = 40;

/// Runs `body` as ranks 0 and 1: in two threads with one mapping (for the thread sanitizer, which sees that
/// they share addresses), or in two processes with one each. The sum of what it returns.
int as_two(bool processes, const std::function<int(NodeArena&, std::size_t)>& body) {
  const ShmSegment file = make_file();
  const ArenaLayout layout{2, kUnits, page_bytes()};
  if (!processes) {
    const auto arena = map_arena(file, layout);
    int other = 0;
    std::thread thread([&] { other = body(*arena, 1); });
    const int own = body(*arena, 0);
    thread.join();
    EXPECT_EQ(first_of(arena->take(kUnits)), 0U) << "all are free in the end";
    return own + other;
  }
  const pid_t child = fork();
  EXPECT_GE(child, 0);
  if (child == 0) _exit(std::min(100, body(*map_arena(file, layout), 1)));
  const auto arena = map_arena(file, layout);
  const int own = body(*arena, 0);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(first_of(arena->take(kUnits)), 0U) << "all are free in the end";
  EXPECT_TRUE(WIFEXITED(status));
  return own + WEXITSTATUS(status);
}

/// Memory that both ranks share beside the arena.
template <class Shared>
struct Beside {
  Beside() {
    void* const memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared = static_cast<Shared*>(memory);
  }
  ~Beside() { munmap(shared, sizeof(Shared)); }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;
  Shared* shared = nullptr;
};

template <class Condition>
void wait_until(const Condition& condition) {
  while (!condition()) std::this_thread::yield();
}

// Rank 0 tells the other what it has taken. Each of the two leaves when it likes, so that at times the next
// communicator has the same units, with the members in the other order, and at times others.
class TwoMembers : public testing::TestWithParam<bool> {};

TEST_P(TwoMembers, TakeRegionsUseAndLeaveThem) {
  struct Told {
    std::atomic<std::uint64_t> number;
    ArenaRegion region;
  };
  const Beside<Told> told;
  constexpr std::uint64_t times = 400;
  const int wrong = as_two(GetParam(), [&](NodeArena& arena, std::size_t rank) {
    int bad = 0;
    std::mt19937 random(static_cast<unsigned>(rank));
    std::mt19937 alike(7);
    for (std::uint64_t time = 1; time <= times; ++time) {
      if (rank == 0) {
        std::optional<ArenaRegion> region;
        wait_until([&] { return (region = arena.take(2)).has_value(); });
        told.shared->region = *region;
        told.shared->number.store(time, std::memory_order_release);
      } else {
        wait_until([&] { return told.shared->number.load(std::memory_order_acquire) == time; });
      }
      const ArenaRegion region = told.shared->region;
      const std::size_t self = (rank + alike()) % 2;
      ShmBuffers buffers(self, {arena.unit(region.first), arena.unit(region.first + 1)},
                         {arena.bell(self == 0 ? rank : 1 - rank), arena.bell(self == 0 ? 1 - rank : rank)},
                         region.rounds, region.first);
      const std::size_t rounds = 1 + alike() % 4;
      for (std::size_t round = 0; round < rounds; ++round) {
        buffers.buffer(self, buffers.round() + 1)->bytes = 10 * time + self;
        buffers.publish();
        const BufferHeader& other = *buffers.buffer(1 - self, buffers.round());
        std::uint64_t number = 0;
        wait_until([&] {
          number = other.sequence.load(std::memory_order_acquire);
          return number >= buffers.round();
        });
        bad += number == buffers.round() ? 0 : 1;  // of a user before
        bad += other.bytes == 10 * time + 1 - self ? 0 : 1;
      }
      // Rank 0 must not tell of the next region before this one was copied: one round at least was made.
      if (random() % 3 == 0) std::this_thread::yield();
      arena.leave(region, buffers.round());
    }
    return bad;
  });
  EXPECT_EQ(wrong, 0);
}

// Whoever has units has them alone, and sees what those before have written.
TEST_P(TwoMembers, TakeAndLeaveAtRandom) {
  struct Units {
    std::array<std::atomic<std::uint32_t>, kUnits> owner;
    std::array<std::uint64_t, kUnits> rounds;  // only their owner may look
    std::atomic<int> taken;
  };
  const Beside<Units> beside;
  Units& units = *beside.shared;
  const int wrong = as_two(GetParam(), [&](NodeArena& arena, std::size_t rank) {
    int bad = 0;
    std::mt19937 random(static_cast<unsigned>(rank));
    for (int step = 0; step < 20'000; ++step) {
      const auto region = arena.take(1 + random() % 30);
      if (!region) continue;
      ++units.taken;
      std::uint64_t rounds = region->rounds + random() % 3;
      for (std::size_t i = region->first; i < region->first + region->count; ++i) {
        bad += units.owner[i].exchange(1, std::memory_order_relaxed) == 0 ? 0 : 1;
        bad += units.rounds[i] <= region->rounds ? 0 : 1;
      }
      if (random() % 16 == 0) sched_yield();
      for (std::size_t i = region->first; i < region->first + region->count; ++i) {
        units.rounds[i] = rounds;
        units.owner[i].store(0, std::memory_order_relaxed);
      }
      leave_all(arena, *region, rounds);
    }
    return bad;
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(units.taken, 10'000);
}

// Both at the same moment, again and again.
TEST_P(TwoMembers, TakeAtOnce) {
  struct Shared {
    std::atomic<std::uint64_t> begun;
    std::atomic<std::uint64_t> looked;
    std::array<std::atomic<int>, kUnits> units;
    std::array<std::atomic<int>, 4> contexts;
  };
  constexpr std::uint64_t times = 20'000;
  const Beside<Shared> beside;
  Shared& shared = *beside.shared;
  const auto meet = [](std::atomic<std::uint64_t>& count, std::uint64_t time) {
    count.fetch_add(1);
    for (int look = 0; count < 2 * time; ++look) {
      if (look > 200) sched_yield();
    }
  };
  const int wrong = as_two(GetParam(), [&](NodeArena& arena, std::size_t rank) {
    int bad = 0;
    std::mt19937 random(static_cast<unsigned>(rank));
    for (std::uint64_t time = 1; time <= times; ++time) {
      const std::size_t members = 1 + (random() % 2 == 0 ? 0 : random() % 30);
      const unsigned late = random() % 512;
      meet(shared.begun, time);
      for (unsigned i = 0; i < late; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
      constexpr unsigned most = 4;
      unsigned context = time % 2 == 0 ? arena.contexts().take(most).value_or(most) : most;
      const auto region = arena.take(members);
      if (time % 2 != 0) context = arena.contexts().take(most).value_or(most);
      if (region) {
        for (std::size_t i = 0; i < region->count; ++i) bad += shared.units[region->first + i].exchange(1);
      }
      bad += context < most ? shared.contexts[context].exchange(1) : 1;
      meet(shared.looked, time);
      if (region) {
        for (std::size_t i = 0; i < region->count; ++i) shared.units[region->first + i] = 0;
        leave_all(arena, *region, 0);
      }
      if (context < most) {
        shared.contexts[context] = 0;
        arena.contexts().give(context);
      }
    }
    return bad;
  });
  EXPECT_EQ(wrong, 0);
}

// Who comes next knows at once how many rounds were made.
TEST_P(TwoMembers, TakeTurnsWithAllUnits) {
  const Beside<std::uint64_t> rounds;  // whoever has the units may look
  const int wrong = as_two(GetParam(), [&](NodeArena& arena, std::size_t) {
    int bad = 0;
    for (int turn = 0; turn < 20'000; ++turn) {
      std::optional<ArenaRegion> region;
      for (int look = 0; !(region = arena.take(kUnits)); ++look) {
        if (look % 200 == 199) sched_yield();
      }
      bad += region->rounds == *rounds.shared ? 0 : 1;
      leave_all(arena, *region, ++*rounds.shared);
    }
    return bad;
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(*rounds.shared, 40'000U);
}

TEST_P(TwoMembers, HaveContextsOfTheirOwn) {
  constexpr unsigned most = 70;
  const Beside<std::array<std::atomic<int>, most>> owners;
  const int wrong = as_two(GetParam(), [&](NodeArena& arena, std::size_t rank) {
    int bad = 0;
    std::mt19937 random(static_cast<unsigned>(rank));
    std::vector<unsigned> held;
    for (int step = 0; step < 20'000; ++step) {
      if (random() % 2 == 0 || held.empty()) {
        const auto context = arena.contexts().take(most);
        if (!context) continue;
        bad += *context < most && (*owners.shared)[*context].exchange(1) == 0 ? 0 : 1;
        held.push_back(*context);
      } else {
        std::swap(held[random() % held.size()], held.back());
        (*owners.shared)[held.back()] = 0;
        arena.contexts().give(held.back());
        held.pop_back();
      }
    }
    return bad;
  });
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(As, TwoMembers, testing::Bool(),
                         [](const auto& info) { return info.param ? "processes" : "threads"; });

TEST(NodeArena, ManyThreadsTakeAndLeaveAtRandom) {
  constexpr std::size_t units = 40;
  const auto arena = make_arena(8, units);
  std::vector<std::uint64_t> rounds(units);  // no atomics: the arena orders who has them
  std::vector<std::size_t> owner(units);
  std::atomic<int> wrong{0};
  std::atomic<int> taken{0};
  std::vector<std::thread> threads;
  for (std::size_t id = 1; id <= 6; ++id) {
    threads.emplace_back([&, id] {
      std::mt19937 random(static_cast<unsigned>(id));
      std::vector<ArenaRegion> held;
      const auto leave = [&](std::size_t i) {
        const ArenaRegion region = held[i];
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
        const bool gives_back = random() % 5 == 0;
        const std::uint64_t made = gives_back ? region.rounds : region.rounds + random() % 5;
        for (std::size_t unit = region.first; unit < region.first + region.count; ++unit) {
          if (std::exchange(owner[unit], 0) != id) ++wrong;
          if (!gives_back) rounds[unit] = made;
        }
        gives_back ? arena->give_back(region) : leave_all(*arena, region, made);
      };
      for (int step = 0; step < 5'000; ++step) {
        if (held.size() < 3 && random() % 2 == 0) {
          const auto region = arena->take(1 + random() % 8);
          if (!region) continue;
          ++taken;
          held.push_back(*region);
          if (region->first + region->count > units) ++wrong;
          for (std::size_t unit = region->first; unit < region->first + region->count; ++unit) {
            if (std::exchange(owner[unit], id) != 0) ++wrong;
            if (rounds[unit] > region->rounds) ++wrong;
          }
          if (random() % 8 == 0) std::this_thread::yield();
        } else if (!held.empty()) {
          leave(random() % held.size());
        }
      }
      while (!held.empty()) leave(0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(taken, 1000);
  EXPECT_EQ(first_of(arena->take(units)), 0U) << "all are free in the end";
}

}  // namespace
}  // namespace tapa
