#include "comm/registrations.hpp"

#include <gtest/gtest.h>

namespace tapa {
namespace {

constexpr std::size_t kLong = Registrations::kLongBlock + 1;

CudaMemory allocation(std::uint64_t id, std::uintptr_t base, std::size_t bytes) {
  return {true, 0, nullptr, id, base, bytes, true};
}

TEST(Registrations, AnAllocationIsWantedWhenItComesBackWithLongBlocks) {
  Registrations r;
  const CudaMemory memory = allocation(1, 4096, 1 << 20);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(r.wanted(memory, Registrations::kLongBlock));
  for (int i = 1; i < Registrations::kUses; ++i) EXPECT_FALSE(r.wanted(memory, kLong));
  EXPECT_TRUE(r.wanted(memory, kLong));
  r.add(0, memory);
  EXPECT_FALSE(r.wanted(memory, kLong));
  EXPECT_FALSE(r.stale(memory));
}

TEST(Registrations, WhatCannotBeSharedOrIsNoDevicesIsNeverWanted) {
  Registrations r;
  CudaMemory pool = allocation(1, 4096, 1 << 20);
  pool.shareable = false;
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(r.wanted(pool, kLong));
    EXPECT_FALSE(r.wanted({}, kLong));
  }
}

TEST(Registrations, ANewAllocationAtAnOldPlaceMakesThemStale) {
  Registrations r;
  r.add(3, allocation(1, 0x10000, 0x1000));
  r.add(4, std::nullopt);  // for another rank's memory
  EXPECT_FALSE(r.stale(allocation(1, 0x10000, 0x1000)));
  EXPECT_FALSE(r.stale(allocation(2, 0x11000, 0x1000)));
  EXPECT_FALSE(r.stale(allocation(2, 0xf000, 0x1000)));
  EXPECT_TRUE(r.stale(allocation(2, 0x10000, 0x1000)));
  EXPECT_TRUE(r.stale(allocation(2, 0xf000, 0x1001)));
  EXPECT_TRUE(r.stale(allocation(2, 0x10fff, 0x1000)));
  EXPECT_TRUE(r.stale(allocation(2, 0x8000, 0x100000)));
  EXPECT_EQ(r.oldest(), 3);
  r.drop();
  EXPECT_FALSE(r.stale(allocation(2, 0x10000, 0x1000)));
  EXPECT_EQ(r.oldest(), 4);
  r.drop();
  EXPECT_EQ(r.oldest(), std::nullopt);
}

TEST(Registrations, TheOldestGoesWhenThereAreTooMany) {
  Registrations r;
  for (int i = 0; i < static_cast<int>(Registrations::kMost); ++i) {
    EXPECT_EQ(r.to_evict(), std::nullopt);
    r.add(i, allocation(static_cast<std::uint64_t>(i) + 1, static_cast<std::uintptr_t>(i) << 20, 4096));
  }
  EXPECT_EQ(r.to_evict(), 0);
  r.evict();
  EXPECT_EQ(r.to_evict(), std::nullopt);
  EXPECT_EQ(r.oldest(), 1);
}

TEST(Registrations, AProgramThatNeverComesBackToItsBuffersIsGivenUp) {
  Registrations r;
  int made = 0;
  for (std::uint64_t id = 1; id < 1000; ++id) {
    const CudaMemory memory = allocation(id, id << 20, 4096);
    bool wanted = false;
    for (int i = 0; i < Registrations::kUses; ++i) wanted = r.wanted(memory, kLong);
    if (!wanted) continue;
    if (r.to_evict()) r.evict();
    r.add(++made, memory);
  }
  EXPECT_EQ(made, static_cast<int>(Registrations::kMost + Registrations::kMostEvictions));
}

}  // namespace
}  // namespace tapa
