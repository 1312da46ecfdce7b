#include "comm/call_order.hpp"

#include <gtest/gtest.h>

#include <iterator>
#include <optional>
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

/// The share of the tags that a communicator can have: where it begins, and how many tags.
struct Share {
  int first;
  int tags;
};
constexpr Share kShares[] = {{0, CallOrder::kLeastTags}, {0, 32768},         {8192, 8192}, {24576, 8192},
                             {1 << 20, 1 << 20},         {2147450880, 32767}};

void expect_in(const TagWindow& window, const Share& share) {
  EXPECT_GE(window.first, share.first + CallOrder::kSetAside);
  EXPECT_LE(window.first - share.first + window.count, share.tags);
}

TEST(CallOrder, NoTwoLivingOperationsShareATag) {
  for (const Share& share : kShares) {
    for (const int wanted : {0, 1, 100, 127, 128, 1000, 1 << 20}) {
      CallOrder order(share.first, share.tags, wanted);
      std::set<int> firsts;
      const auto expect_apart = [&](const TagWindow& window) {
        expect_in(window, share);
        const auto next = firsts.insert(window.first).first;
        EXPECT_TRUE(next == firsts.begin() || *std::prev(next) + window.count <= window.first);
        EXPECT_TRUE(std::next(next) == firsts.end() || window.first + window.count <= *std::next(next));
      };
      std::size_t ordinary = 0;
      for (; const auto window = order.take_window(); ++ordinary) expect_apart(*window);
      std::size_t persistent = 0;
      for (std::size_t block = 0; block < order.blocks(); ++block) {
        for (; const std::uint64_t free = order.free_windows(block); ++persistent)
          expect_apart(order.take_persistent(block, free));
      }
      EXPECT_GE(ordinary, 32U) << share.tags << " tags, " << wanted << " wanted";
      EXPECT_EQ(persistent, ordinary);
      EXPECT_EQ(firsts.size(), ordinary + persistent);
      EXPECT_EQ(firsts.count(order.free_tag()) + firsts.count(order.mean_tag()), 0U);
    }
  }
}

TEST(CallOrder, AnOperationHasTheTagsThatItWantsWhereThereAreSoMany) {
  constexpr int least = CallOrder::kLeastTags;
  EXPECT_EQ(CallOrder(0, least, 100).take_window()->count, 100);
  EXPECT_EQ(CallOrder(0, least, 1000).take_window()->count, (least - CallOrder::kSetAside) / 64);
  EXPECT_EQ(CallOrder(0, 1 << 20, 100).take_window()->count, 1 << 10)
      << "more than that where there are many";
}

TEST(CallOrder, TagsOfAgreementsAreItsOwn) {
  const CallOrder order(8192, 8192, 0);
  EXPECT_NE(order.free_tag(), order.mean_tag());
  for (const int tag : {order.free_tag(), order.mean_tag()}) {
    EXPECT_GE(tag, 8192);
    EXPECT_LT(tag, 8192 + CallOrder::kSetAside);
  }
}

TEST(CallOrder, AnOperationWaitsForTheOneThatHadItsTags) {
  for (const Share& share : kShares) {
    CallOrder order(share.first, share.tags);
    const TagWindow first = *order.take_window();
    while (order.take_window()) {
    }
    order.give_back(first);
    const auto again = order.take_window();
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(again->first, first.first);
    EXPECT_FALSE(order.take_window().has_value());
    order.give_back({});  // of a call that had none
    EXPECT_FALSE(order.take_window().has_value());
  }
}

TEST(CallOrder, CallsWithoutMessagesCountTooSoThatRanksStayInStep) {
  CallOrder here;
  CallOrder there;
  here.pass_window();
  static_cast<void>(there.take_window());
  EXPECT_EQ(here.take_window()->first, there.take_window()->first);
}

/// Two ranks that make persistent requests together and free them when they like.
struct TwoRanks {
  explicit TwoRanks(const Share& share) : a(share.first, share.tags), b(share.first, share.tags) {}
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
  TwoRanks ranks({0, 1 << 20});
  const TagWindow first = *ranks.make();
  const TagWindow second = *ranks.make();
  EXPECT_NE(first.first, second.first);
  ranks.a.give_back(first);  // the other rank still uses it
  EXPECT_NE(ranks.make()->first, first.first);
  ranks.b.give_back(first);
  EXPECT_EQ(ranks.make()->first, first.first);
}

TEST(CallOrder, ALivingPersistentOperationKeepsItsTagsHoweverManyComeAndGo) {
  for (const Share& share : kShares) {
    TwoRanks ranks(share);
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
  constexpr Share share{1 << 20, 1 << 20};
  TwoRanks ranks(share);
  std::set<int> firsts;
  for (auto window = ranks.make(); window; window = ranks.make()) {
    EXPECT_TRUE(firsts.insert(window->first).second);
    expect_in(*window, share);
  }
  EXPECT_GE(firsts.size(), 16U);
  const auto ordinary = ranks.a.take_window();
  EXPECT_EQ(firsts.count(ordinary->first), 0U);
}

}  // namespace
}  // namespace tapa
