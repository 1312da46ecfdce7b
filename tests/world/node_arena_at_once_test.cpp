// Several ranks at the shared memory of a node at once: as threads of one process, and as processes with a
// mapping of their own.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "arena_files.hpp"
#include "transport/shm_buffers.hpp"
#include "world/node_arena.hpp"

namespace tapa {
namespace {

using namespace arena_test;

constexpr std::size_t kUnits = 40;

/// Runs `body` as ranks 0 and 1: in two threads with one mapping (for the thread sanitizer, which sees that
/// they share addresses), or in two processes with one each. The sum of what it returns.
int as_two(bool processes, const std::function<int(NodeArena&, std::size_t)>& body) {
  const std::vector<ShmSegment> files = make_files(2);
  const ArenaLayout layout{2, kUnits, page_bytes()};
  if (!processes) {
    const auto arena = map_arena(files, layout);
    int other = 0;
    std::thread thread([&] { other = body(*arena, 1); });
    const int own = body(*arena, 0);
    thread.join();
    EXPECT_EQ(first_of(arena->take(kUnits)), 0U) << "all are free in the end";
    return own + other;
  }
  const pid_t child = fork();
  EXPECT_GE(child, 0);
  if (child == 0) _exit(std::min(100, body(*map_arena(files, layout), 1)));
  const auto arena = map_arena(files, layout);
  const int own = body(*arena, 0);
  int status = 0;
  TEMP_FAILURE_RETRY(waitpid(child, &status, 0));
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
  struct Taken {
    std::atomic<std::uint64_t> number;
    ArenaRegion region;
  };
  const Beside<Taken> taken;
  constexpr std::uint64_t times = 400;
  const int wrong = as_two(GetParam(), [&](NodeArena& arena, std::size_t rank) {
    int bad = 0;
    std::mt19937 random(static_cast<unsigned>(rank));
    std::mt19937 alike(7);
    for (std::uint64_t time = 1; time <= times; ++time) {
      if (rank == 0) {
        std::optional<ArenaRegion> region;
        wait_until([&] { return (region = arena.take(2)).has_value(); });
        taken.shared->region = *region;
        taken.shared->number.store(time, std::memory_order_release);
      } else {
        wait_until([&] { return taken.shared->number.load(std::memory_order_acquire) == time; });
      }
      const ArenaRegion region = taken.shared->region;
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
