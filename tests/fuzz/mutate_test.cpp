// Mutations: the same for a seed, bounded, and each of them does what it says.
#include "mutate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

using fuzz::Chance, fuzz::Input, fuzz::Mutation, fuzz::Mutator;

Input bytes(std::string_view text) {
  return {text.begin(), text.end()};
}

bool holds(const Input& all, const Input& part) {
  return std::search(all.begin(), all.end(), part.begin(), part.end()) != all.end();
}

const std::vector<Input> kCorpus = {bytes("first input"), bytes("another one"), bytes("")};
const std::vector<Input> kWords = {bytes("WORD")};

/// What `mutation` makes of an input in a hundred tries.
std::vector<Input> tries(Mutation mutation, const Input& from) {
  const Mutator mutator(kCorpus, kWords);
  std::vector<Input> made;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Chance chance(seed);
    made.push_back(from);
    EXPECT_TRUE(mutator.apply(mutation, made.back(), chance));
  }
  return made;
}

TEST(Mutate, IsTheSameForASeedOnEveryMachine) {
  const Mutator mutator(kCorpus, kWords);
  std::set<Input> different;
  for (std::uint64_t run = 0; run < 200; ++run) {
    EXPECT_EQ(mutator.make(7, run), mutator.make(7, run));
    different.insert(mutator.make(7, run));
  }
  EXPECT_GT(different.size(), 180U);
  EXPECT_NE(mutator.make(7, 3), mutator.make(8, 3));
  EXPECT_EQ(Chance(1).next(), 0x910A2DEC89025CC1ULL);  // splitmix64
}

TEST(Mutate, BoundsSizes) {
  for (const std::size_t size : {fuzz::kMostInputBytes - 1, std::size_t{9000}}) {
    const std::vector<Input> large = {Input(size, 'x')};
    const Mutator mutator(large, kWords);
    std::size_t longest = 0;
    for (std::uint64_t run = 0; run < 200; ++run) longest = std::max(longest, mutator.make(1, run).size());
    EXPECT_EQ(longest, std::max(size, fuzz::kMostInputBytes));
  }
}

TEST(Mutate, FlipsOneBit) {
  const Input from = bytes("abcdef");
  for (const Input& made : tries(Mutation::flip, from)) {
    int bits = 0;
    for (std::size_t i = 0; i < from.size(); ++i) bits += __builtin_popcount(made[i] ^ from[i]);
    EXPECT_EQ(bits, 1);
  }
}

TEST(Mutate, ChangesOneByte) {
  const Input from = bytes("abcdef");
  std::set<std::uint8_t> values;
  for (const Input& made : tries(Mutation::number, from)) {
    ASSERT_EQ(made.size(), from.size());
    int changed = 0;
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (made[i] == from[i]) continue;
      ++changed;
      values.insert(made[i]);
    }
    EXPECT_LE(changed, 1);
  }
  for (const std::uint8_t edge : Input{0, 1, 127, 128, 255}) EXPECT_TRUE(values.contains(edge)) << int{edge};
}

TEST(Mutate, InsertsAndRemoves) {
  const Input from = bytes("abcdef");
  for (const Input& made : tries(Mutation::insert, from)) {
    EXPECT_GT(made.size(), from.size());
    EXPECT_LE(made.size(), from.size() + 16);
    const std::size_t same = static_cast<std::size_t>(std::ranges::mismatch(made, from).in1 -
                                                      made.begin());  // then what was inserted, then the rest
    const Input rest(from.begin() + static_cast<std::ptrdiff_t>(same), from.end());
    EXPECT_TRUE(std::equal(rest.rbegin(), rest.rend(), made.rbegin()));
  }
  std::set<std::size_t> sizes;
  for (const Input& made : tries(Mutation::remove, from)) sizes.insert(made.size());
  EXPECT_EQ(sizes, (std::set<std::size_t>{0, 1, 2, 3, 4, 5}));
}

TEST(Mutate, CopiesWhatIsThere) {
  bool twice = false;
  for (const Input& made : tries(Mutation::copy, bytes("ab"))) {
    EXPECT_TRUE(std::ranges::all_of(made, [](std::uint8_t byte) { return byte == 'a' || byte == 'b'; }));
    EXPECT_LE(made.size(), 4U);
    twice = twice || holds(made, bytes("abab"));
  }
  EXPECT_TRUE(twice);
}

TEST(Mutate, SplicesTwoInputs) {
  const Input from = bytes("XYZ");
  bool both = false;
  for (const Input& made : tries(Mutation::splice, from)) {
    const auto own = static_cast<std::size_t>(
        std::ranges::count_if(made, [](std::uint8_t byte) { return byte >= 'X' && byte <= 'Z'; }));
    EXPECT_TRUE(std::ranges::equal(std::span(made).first(own), std::span(from).first(own)));
    const Input rest(made.begin() + static_cast<std::ptrdiff_t>(own), made.end());
    EXPECT_TRUE(std::ranges::any_of(kCorpus, [&](const Input& other) { return holds(other, rest); }));
    both = both || (own > 0 && !rest.empty());
  }
  EXPECT_TRUE(both);
}

TEST(Mutate, PutsWordsInAndOver) {
  std::set<std::size_t> sizes;
  for (const Input& made : tries(Mutation::word, bytes("abcdef"))) {
    EXPECT_TRUE(holds(made, kWords[0]));
    sizes.insert(made.size());
  }
  EXPECT_TRUE(sizes.contains(6));
  EXPECT_TRUE(sizes.contains(10));
}

TEST(Mutate, LeavesWhatCannotBeChanged) {
  const Mutator nothing({}, {});
  for (const Mutation mutation : {Mutation::flip, Mutation::number, Mutation::remove, Mutation::copy,
                                  Mutation::splice, Mutation::word}) {
    Input input;
    Chance chance(1);
    EXPECT_FALSE(nothing.apply(mutation, input, chance));
    EXPECT_TRUE(input.empty());
  }
  EXPECT_FALSE(nothing.make(1, 1).empty());  // bytes are inserted
}

TEST(Mutate, ReadsDictionaries) {
  const std::vector<Input> words =
      fuzz::words_of("# comment\n\n\"a\\\"b\\\\\"\nname=\"\\x00\\xfFz\"\r\n\"#\"");
  EXPECT_EQ(words, (std::vector<Input>{bytes("a\"b\\"), {0x00, 0xff, 'z'}, bytes("#")}));
  for (const char* wrong : {"word", "\"", "\"\"", "\"\\q\"", "\"\\x0\"", "\"\\xg0\""}) {
    try {
      (void)fuzz::words_of(std::string("\"fine\"\n") + wrong);
      FAIL() << wrong;
    } catch (const std::invalid_argument& error) {
      EXPECT_TRUE(std::string_view(error.what()).starts_with("line 2: ")) << error.what();
    }
  }
}

}  // namespace
