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

}  // namespace
}  // namespace dit
