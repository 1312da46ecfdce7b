#include "comm/call_order.hpp"

#include <gtest/gtest.h>

#include <set>

namespace tapa {
namespace {

TEST(CallOrder, OperationsBeginInTheOrderOfTheirCalls) {
  CallOrder order;
  int a = 0;
  int b = 0;
  EXPECT_TRUE(order.idle());
  order.enqueue(&a);
  order.enqueue(&b);
  EXPECT_EQ(order.first(), &a);
  order.leave(&a);
  EXPECT_EQ(order.first(), &b);
  order.leave(&b);
  EXPECT_TRUE(order.idle());
}

TEST(CallOrder, NoTwoLivingOperationsShareATag) {
  for (const int limit : {32767, 65535, (1 << 20) - 1, 2147483647}) {
    CallOrder order(limit);
    std::set<int> firsts;
    while (const auto window = order.take_window()) {
      EXPECT_TRUE(firsts.insert(window->first).second) << "limit " << limit;
      EXPECT_LE(window->first + window->count - 1, limit);
      EXPECT_GE(window->count, 100);
    }
    EXPECT_GE(firsts.size(), 16U) << "limit " << limit;
  }
}

TEST(CallOrder, AnOperationWaitsForTheOneThatHadItsTags) {
  CallOrder order((1 << 20) - 1);
  const TagWindow first = *order.take_window();
  while (order.take_window()) {
  }
  order.give_back(first);
  const auto again = order.take_window();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->first, first.first);
  EXPECT_FALSE(order.take_window().has_value());
}

TEST(CallOrder, CallsWithoutMessagesCountTooSoThatRanksStayInStep) {
  CallOrder here;
  CallOrder there;
  here.pass_window();
  EXPECT_EQ(there.take_window()->first, 0);
  EXPECT_EQ(here.take_window()->first, there.take_window()->first);
}

/// Two ranks that make persistent requests together and free them when they like.
struct TwoRanks {
  explicit TwoRanks(int limit) : a(limit), b(limit) {}
  /// The window that both take, or nothing when no window is free on both.
  std::optional<TagWindow> make() {
    EXPECT_EQ(a.start_block(), b.start_block());
    for (std::size_t i = 0; i < a.blocks(); ++i) {
      const std::size_t block = (a.start_block() + i) % a.blocks();
      const std::uint64_t free = a.free_windows(block) & b.free_windows(block);
      if (free == 0) continue;
      const TagWindow window = a.take_persistent(block, free);
      EXPECT_EQ(window.first, b.take_persistent(block, free).first);
      return window;
    }
    return std::nullopt;
  }
  CallOrder a, b;
};

TEST(CallOrder, PersistentTagsAreFreeOnAllRanks) {
  TwoRanks ranks((1 << 20) - 1);
  const TagWindow first = *ranks.make();
  const TagWindow second = *ranks.make();
  EXPECT_NE(first.first, second.first);
  ranks.a.give_back(first);  // the other rank still uses it
  EXPECT_NE(ranks.make()->first, first.first);
  ranks.b.give_back(first);
  EXPECT_EQ(ranks.make()->first, first.first);
}

TEST(CallOrder, ALivingPersistentOperationKeepsItsTagsHoweverManyComeAndGo) {
  for (const int limit : {32767, (1 << 20) - 1, 2147483647}) {
    TwoRanks ranks(limit);
    const TagWindow kept = *ranks.make();
    for (int i = 0; i < 20000; ++i) {
      const auto other = ranks.make();
      ASSERT_TRUE(other.has_value());
      ASSERT_NE(other->first, kept.first);
      ranks.a.give_back(*other);
      ranks.b.give_back(*other);
    }
  }
}

TEST(CallOrder, PersistentTagsEnd) {
  TwoRanks ranks((1 << 20) - 1);
  std::set<int> firsts;
  std::optional<TagWindow> last;
  for (auto window = ranks.make(); window; window = ranks.make()) {
    EXPECT_TRUE(firsts.insert(window->first).second);
    last = window;
  }
  EXPECT_GE(firsts.size(), 16U);
  EXPECT_LE(last->first + last->count - 1, (1 << 20) - 1);
  const auto ordinary = ranks.a.take_window();
  EXPECT_EQ(firsts.count(ordinary->first), 0U);
}

}  // namespace
}  // namespace tapa
