#include "layout/layout.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <stdexcept>

#include "../message_of.hpp"

namespace dit {
namespace {

AttentionShape shape(std::int64_t heads, std::int64_t kv_heads = 0) {
  return {1, 5, 16, heads, kv_heads == 0 ? heads : kv_heads, 8};
}

TEST(EvenPart, CoversAllWithoutGapsAndSizesDifferByOne) {
  for (std::int64_t total = 0; total <= 40; ++total) {
    for (std::int64_t count = 1; count <= 20; ++count) {
      std::int64_t at = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        const Range part = even_part(total, count, i);
        EXPECT_EQ(part.begin, at);
        EXPECT_EQ(part.begin, total * i / count);
        EXPECT_GE(part.size(), total / count);
        EXPECT_LE(part.size(), (total + count - 1) / count);
        at = part.end;
      }
      EXPECT_EQ(at, total);
    }
  }
}

TEST(EvenPart, LargeTotalsDoNotOverflow) {
  const std::int64_t total = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(even_part(total, 1'000'000, 999'999).end, total);
  EXPECT_EQ(even_part(total, 3, 1), (Range{total / 3, total / 3 * 2}));
}

TEST(EvenPart, Misuse) {
  const char* expected = " things: expected total >= 0 and 0 <= part < count";
  EXPECT_EQ(misuse_of([] { (void)even_part(-1, 2, 0); }), std::string("part 0 of 2 of -1") + expected);
  EXPECT_EQ(misuse_of([] { (void)even_part(4, 0, 0); }), std::string("part 0 of 0 of 4") + expected);
  EXPECT_EQ(misuse_of([] { (void)even_part(4, 2, 2); }), std::string("part 2 of 2 of 4") + expected);
}

// Every (head, token) is attended for by exactly one rank and group.
TEST(Layout, HeadsAndQueriesAreDealtOutOnce) {
  for (int ranks = 1; ranks <= 24; ++ranks) {
    for (std::int64_t heads = 1; heads <= 14; ++heads) {
      const UlyssesLayout layout(shape(heads), ranks);
      for (const int groups : {1, 2, 3}) {
        std::set<std::pair<std::int64_t, std::int64_t>> done;
        for (int r = 0; r < ranks; ++r) {
          for (int g = 0; g < groups; ++g) {
            for (std::int64_t h = layout.heads(r, g, groups).begin; h < layout.heads(r, g, groups).end; ++h) {
              for (std::int64_t t = layout.query_tokens(r).begin; t < layout.query_tokens(r).end; ++t) {
                EXPECT_TRUE(done.emplace(h, t).second) << h << " " << t;
              }
            }
          }
        }
        EXPECT_EQ(static_cast<std::int64_t>(done.size()), heads * layout.tokens()) << ranks << " " << heads;
      }
    }
  }
}

TEST(Layout, MoreRanksThanHeads) {
  const UlyssesLayout layout(shape(2), 5);
  // Rank p attends head floor(p * 2 / 5); 21 tokens are dealt out to the 3 and the 2 ranks of a head.
  const std::int64_t head[] = {0, 0, 0, 1, 1};
  const Range queries[] = {{0, 7}, {7, 14}, {14, 21}, {0, 10}, {10, 21}};
  for (int r = 0; r < 5; ++r) {
    EXPECT_EQ(layout.heads(r), (Range{head[r], head[r] + 1}));
    EXPECT_EQ(layout.query_tokens(r), queries[r]);
  }
}

TEST(Layout, KeyHeadsAreThoseThatQueryHeadsNeed) {
  const UlyssesLayout layout(shape(12, 3), 5);  // four query heads share a key head
  for (int r = 0; r < 5; ++r) {
    for (int group = 0; group < 2; ++group) {
      const Range heads = layout.heads(r, group, 2);
      const Range kv = layout.kv_heads(r, group, 2);
      if (heads.size() == 0) {
        EXPECT_EQ(kv.size(), 0);
        continue;
      }
      EXPECT_EQ(kv, (Range{heads.begin * 3 / 12, (heads.end - 1) * 3 / 12 + 1}));
    }
  }
  EXPECT_EQ(layout.kv_heads(1), (Range{0, 1}));  // heads 2, 3
  EXPECT_EQ(layout.kv_heads(2), (Range{1, 2}));  // heads 4 to 6
  EXPECT_EQ(layout.kv_heads(3), (Range{1, 3}));  // heads 7, 8 lie on both sides
}

TEST(Layout, TextIsSplitOrReplicated) {
  AttentionShape s = shape(4);
  EXPECT_EQ(UlyssesLayout(s, 3).text_tokens(1), (Range{1, 3}));
  EXPECT_EQ(UlyssesLayout(s, 3).image_tokens(2), (Range{10, 16}));
  EXPECT_EQ(UlyssesLayout(s, 3).sequence_rows(2), 2 + 6);
  s.text = TextPlacement::replicated;
  EXPECT_EQ(UlyssesLayout(s, 3).text_tokens(1), (Range{0, 5}));
  EXPECT_EQ(UlyssesLayout(s, 3).sequence_rows(2), 5 + 6);
}

TEST(Layout, MisuseOfShapes) {
  const auto error = [](auto change) {
    AttentionShape s = shape(4);
    change(s);
    return misuse_of([&] { UlyssesLayout layout(s, 2); });
  };
  EXPECT_EQ(error([](auto& s) { s.batch = 0; }), "batch = 0: expected at least 1");
  EXPECT_EQ(error([](auto& s) { s.text_tokens = -1; }), "text_tokens = -1: expected at least 0");
  EXPECT_EQ(error([](auto& s) { s.image_tokens = -7; }), "image_tokens = -7: expected at least 0");
  EXPECT_EQ(error([](auto& s) { s.heads = 0; }), "heads = 0: expected at least 1");
  EXPECT_EQ(error([](auto& s) { s.kv_heads = 0; }), "kv_heads = 0: expected at least 1");
  EXPECT_EQ(error([](auto& s) { s.head_dim = -8; }), "head_dim = -8: expected at least 1");
  EXPECT_EQ(error([](auto& s) { s.kv_heads = 3; }), "kv_heads = 3: expected a divisor of heads = 4");
  EXPECT_EQ(error([](auto& s) { s.kv_heads = 8; }), "kv_heads = 8: expected a divisor of heads = 4");
  EXPECT_EQ(
      error([](auto& s) { s.image_tokens = std::int64_t{1} << 60; }),
      "batch * (text_tokens + image_tokens) * heads * head_dim = 1 * (5 + 1152921504606846976) * 4 * 8: "
      "expected at most 2^56");
  EXPECT_EQ(error([](auto& s) { s.batch = s.head_dim = std::numeric_limits<std::int64_t>::max(); }),
            "batch * (text_tokens + image_tokens) * heads * head_dim = 9223372036854775807 * (5 + 16) * 4 * "
            "9223372036854775807: expected at most 2^56");
}

TEST(Layout, MisuseOfRanksAndGroups) {
  EXPECT_EQ(misuse_of([] { UlyssesLayout layout(shape(4), 0); }), "ranks = 0: expected at least 1");
  EXPECT_EQ(
      misuse_of([] { UlyssesLayout layout(shape(38), 40, BeyondHeads::refuse); }),
      "ranks = 40: expected at most 38, the largest useful count: each rank attends for at least one of 38 "
      "heads");
  EXPECT_NO_THROW(UlyssesLayout(shape(38), 38, BeyondHeads::refuse));
  const UlyssesLayout layout(shape(4), 3);
  EXPECT_EQ(misuse_of([&] { (void)layout.heads(3); }), "rank = 3: expected 0 to 2");
  EXPECT_EQ(misuse_of([&] { (void)layout.query_tokens(-1); }), "rank = -1: expected 0 to 2");
  EXPECT_EQ(misuse_of([&] { (void)layout.sequence_rows(5); }), "rank = 5: expected 0 to 2");
  EXPECT_EQ(misuse_of([&] { (void)layout.heads(0, 2, 2); }), "group = 2: expected 0 to 1");
  EXPECT_EQ(misuse_of([&] { (void)layout.gather_heads(0, 0, 0); }), "groups = 0: expected at least 1");
  EXPECT_EQ(misuse_of([&] { (void)layout.scatter_heads(AttentionTensor::key, 4); }),
            "rank = 4: expected 0 to 2");
}

}  // namespace
}  // namespace dit
