// Ranks that part, one of them after an error, with threads of the host as ranks; and what who is still in a
// call makes of it.
#include "device/parting.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "host_machine.hpp"
#include "small_tuning.hpp"

namespace tapa::device {
namespace {

void say(const HostMachine& machine, int rank, int peer, Parting parting) {
  std::atomic_ref(machine.view(peer).partings().of[rank]).store(static_cast<Word>(parting));
}

bool part(const HostMachine& machine, int rank, bool well) {
  const auto hear = [&] {
    Partings said{};
    for (int peer = 0; peer < kMaxRanks; ++peer)
      said.of[peer] = std::atomic_ref(machine.view(rank).partings().of[peer]).load();
    return said;
  };
  return part_from(
      rank, machine.region().size, well,
      [&](int peer, Parting parting) { say(machine, rank, peer, parting); }, hear);
}

/// What part() says on each rank when the ranks come one after the other, `failed` of them after an error.
std::vector<char> parting(int size, int failed) {
  const HostMachine machine(size, small_tuning());
  std::vector<char> well(static_cast<std::size_t>(size), 2);
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5 * (size - rank)));
      well[static_cast<std::size_t>(rank)] = part(machine, rank, rank != failed) ? 1 : 0;
    });
  }
  ranks.clear();
  return well;
}

TEST(Parting, AllAreWell) {
  EXPECT_EQ(parting(1, -1), std::vector<char>(1, 1));
  EXPECT_EQ(parting(2, -1), std::vector<char>(2, 1));
  EXPECT_EQ(parting(5, -1), std::vector<char>(5, 1));
}

TEST(Parting, NobodyWaitsForOneThatFailed) {
  for (int failed = 0; failed < 3; ++failed) EXPECT_EQ(parting(3, failed), std::vector<char>(3, 0)) << failed;
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

TEST(Parting, WhoIsStillInACallLearnsOfItWithoutATimeOut) {
  for (const Parting parting : {Parting::well, Parting::failed}) {
    for (const Word bytes : {Word{0}, Word{50}, Word{3000}}) {
      HostMachine machine(2, small_tuning());
      std::vector<std::byte> memory(4 * bytes);
      std::jthread other([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        say(machine, 1, 0, parting);
      });
      HostMachine::run(exchange(machine, 0, memory, bytes), {});
      EXPECT_EQ(machine.failure(0).parted[1], 1U) << bytes << " bytes";
      EXPECT_EQ(machine.failure(0).missing[1], 0U);
    }
  }
}

TEST(Parting, WhatCameBeforeItIsTaken) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    const Word bytes = seed % 2 == 0 ? 50 : 3000;
    HostMachine machine(2, small_tuning());
    std::vector<std::vector<std::byte>> memory(2, std::vector<std::byte>(4 * bytes));
    for (int rank = 0; rank < 2; ++rank)
      std::memset(memory[static_cast<std::size_t>(rank)].data(), rank + 1, 2 * bytes);
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ranks.emplace_back([&, rank] {
        auto& own = memory[static_cast<std::size_t>(rank)];
        // Rank 0 dawdles behind what it polls.
        HostMachine::run(exchange(machine, rank, own, bytes), {1, rank == 0 ? 2 : 0, seed});
        if (rank == 1) say(machine, 1, 0, Parting::well);
      });
    }
    ranks.clear();
    EXPECT_EQ(machine.failure(0).parted[1], 0U) << "seed " << seed;
    EXPECT_EQ(memory[0][3 * bytes], std::byte{2}) << "seed " << seed;
    EXPECT_EQ(memory[0][4 * bytes - 1], std::byte{2}) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tapa::device
