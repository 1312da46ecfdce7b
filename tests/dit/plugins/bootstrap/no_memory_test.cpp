// A rank that finds no memory for one of the small pieces that it needs on its way to the others, each single
// one in turn: it takes what was set aside, and all goes well.
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "../../../run/refused_memory.hpp"
#include "memory_group.hpp"

namespace dit {
namespace {

constexpr int kRanks = 2;

void use_all(ExchangeContext& context) {
  context.barrier();
  const auto own = static_cast<std::byte>(context.rank());
  EXPECT_EQ(context.all_gather({&own, 1}, context.open_channel()),
            (std::vector<std::byte>{std::byte{0}, std::byte{1}}));
  std::vector<int> memory(100);
  const RegisteredMemory registered = context.register_memory(memory.data(), memory.size() * sizeof(int));
  const auto part = context.split(0, 0);
  part->barrier();
  part->close();
}

TEST(BootstrapNoMemory, KeepsNobodyWaiting) {
  has_reserve = true;
  int pieces = -1;  // the first contexts are refused nothing
  for (bool refused = true; refused && !HasFailure(); ++pieces) {
    MemoryGroup group(kRanks);
    group.alltoallv = pieces % 2 == 0;
    const Refusing refusing(pieces < 0 ? kNone : 1, pieces, 1);
    run_memory_ranks(group, use_all);
    refused = Refusing::some();
  }
  EXPECT_GT(pieces, 100);
  has_reserve = false;
}

thread_local bool is_poor = false;

// A rank without memory for pieces of 128 KiB, on the thread that calls the program's functions.
TEST(BootstrapNoMemory, BlocksAreGatheredInPiecesThatAllRanksHaveMemoryFor) {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  MemoryGroup group(kRanks);
  group.alltoallv = false;
  group.at(1).before = [](const char*) {
    is_poor = true;
    return 0;
  };
  is_spared = [] { return !is_poor; };
  {
    const Refusing refusing(std::size_t{128} << 10);
    run_memory_ranks(group, [](ExchangeContext& context) {
      const auto value = [](int from, int to, std::size_t at) {
        return static_cast<std::byte>(static_cast<std::size_t>(from * 7 + to * 3) + at % 251);
      };
      std::vector<std::byte> send(kRanks * kBytes), recv(send.size());
      std::vector<dit_block> blocks;
      for (int peer = 0; peer < kRanks; ++peer) {
        blocks.push_back({static_cast<std::size_t>(peer) * kBytes, kBytes});
        for (std::size_t at = 0; at < kBytes; ++at)
          send[blocks.back().offset + at] = value(context.rank(), peer, at);
      }
      dit_exchange_call call{};
      call.send = send.data();
      call.recv = recv.data();
      call.send_blocks = call.recv_blocks = blocks.data();
      context.start(call).wait();
      bool right = true;
      for (int peer = 0; peer < kRanks; ++peer)
        for (std::size_t at = 0; at < kBytes; ++at)
          right = right &&
                  recv[blocks[static_cast<std::size_t>(peer)].offset + at] == value(peer, context.rank(), at);
      EXPECT_TRUE(right);
    });
    EXPECT_TRUE(Refusing::some());
  }
  is_spared = nullptr;
}

}  // namespace
}  // namespace dit
