// What a thread remembers: values are found by key and looks; in a set the oldest gives way.
#include "route/recent.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace tapa {
namespace {

struct Item {
  bool known = false;
  std::uint64_t key = 0;
  int value = 0;
};

template <std::size_t Sets>
const Item* find(Recent<Item, Sets>& recent, std::uint64_t key) {
  return recent.find(key, [&](const Item& item) { return item.known && item.key == key; });
}

template <std::size_t Sets>
void put(Recent<Item, Sets>& recent, std::uint64_t key, int value) {
  recent.put(key, {true, key, value}, [](const Item& item) { return item.known; });
}

TEST(Recent, HoldsNothingAtFirst) {
  Recent<Item, 2> recent;
  for (std::uint64_t key = 0; key < 100; ++key) EXPECT_EQ(find(recent, key), nullptr);
}

TEST(Recent, TheOldestOfASetGivesWay) {
  Recent<Item, 1> recent;
  for (int i = 0; i < 7; ++i) put(recent, static_cast<std::uint64_t>(i), i);
  for (std::uint64_t key = 0; key < 3; ++key) EXPECT_EQ(find(recent, key), nullptr);
  for (std::uint64_t key = 3; key < 7; ++key) {
    ASSERT_NE(find(recent, key), nullptr);
    EXPECT_EQ(find(recent, key)->value, static_cast<int>(key));
  }
}

// Whatever its age.
TEST(Recent, WhatHoldsNoMoreGivesWayFirst) {
  Recent<Item, 1> recent;
  for (std::uint64_t key = 0; key < 4; ++key) put(recent, key, 0);
  for (std::uint64_t key = 4; key < 20; ++key) {
    const std::uint64_t ended = key == 4 ? 2 : key - 1;
    recent.find(ended, [&](const Item& item) { return item.key == ended; })->known = false;
    put(recent, key, 0);
    for (const std::uint64_t kept : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{3}, key})
      EXPECT_NE(find(recent, kept), nullptr) << kept << " after " << key;
  }
}

TEST(Recent, WhatIsFoundCanBeChanged) {
  Recent<Item, 4> recent;
  put(recent, 5, 1);
  recent.find(5, [](const Item& item) { return item.known; })->value = 2;
  EXPECT_EQ(find(recent, 5)->value, 2);
}

// Handles of Open MPI are addresses some hundred bytes apart, those of MPICH small numbers one apart: half as
// many as there are places must find room, whatever the distance is.
TEST(Recent, HandlesAtAnyDistanceFindRoom) {
  for (const std::uint64_t first : {0x55d0c0a81000ULL, 0x84000000ULL, 1ULL}) {
    for (const std::uint64_t distance : {1, 2, 8, 16, 64, 400, 512, 4096, 65536}) {
      Recent<Item, 8> recent;
      for (std::uint64_t i = 0; i < 16; ++i) put(recent, first + i * distance, 0);
      int found = 0;
      for (std::uint64_t i = 0; i < 16; ++i) found += find(recent, first + i * distance) != nullptr ? 1 : 0;
      EXPECT_GE(found, 14) << first << " " << distance;
    }
  }
}

}  // namespace
}  // namespace tapa
