// What a thread remembers: values are found by what they are; the oldest gives way.
#include "route/recent.hpp"

#include <gtest/gtest.h>

#include <set>

namespace tapa {
namespace {

struct Item {
  bool known = false;
  int key = 0;
  int value = 0;
};

constexpr int kMost = Recent<Item>::kMost;

const Item* find(Recent<Item>& recent, int key) {
  return recent.find([&](const Item& item) { return item.known && item.key == key; });
}

void put(Recent<Item>& recent, int key, int value) {
  recent.put({true, key, value}, [](const Item& item) { return item.known; });
}

TEST(Recent, HoldsNothingAtFirst) {
  Recent<Item> recent;
  for (int key = 0; key < 100; ++key) EXPECT_EQ(find(recent, key), nullptr);
}

TEST(Recent, TheOldestGivesWay) {
  Recent<Item> recent;
  for (int key = 0; key < 3 * kMost; ++key) {
    put(recent, key, 2 * key);
    for (int old = 0; old <= key; ++old) {
      const Item* const item = find(recent, old);
      ASSERT_EQ(item != nullptr, old + kMost > key) << old << " after " << key;
      if (item != nullptr) {
        EXPECT_EQ(item->value, 2 * old);
      }
    }
  }
}

// Whatever its age.
TEST(Recent, WhatHoldsNoMoreGivesWayFirst) {
  Recent<Item> recent;
  std::set<int> kept;
  for (int key = 0; key < kMost; ++key) {
    put(recent, key, 0);
    if (key != 2) kept.insert(key);
  }
  for (int key = kMost; key < 20; ++key) {
    const int ended = key == kMost ? 2 : key - 1;
    recent.find([&](const Item& item) { return item.key == ended; })->known = false;
    put(recent, key, 0);
    EXPECT_NE(find(recent, key), nullptr) << key;
    for (const int old : kept) EXPECT_NE(find(recent, old), nullptr) << old << " after " << key;
  }
}

TEST(Recent, WhatIsFoundCanBeChanged) {
  Recent<Item> recent;
  put(recent, 5, 1);
  recent.find([](const Item& item) { return item.known; })->value = 2;
  EXPECT_EQ(find(recent, 5)->value, 2);
}

}  // namespace
}  // namespace tapa
