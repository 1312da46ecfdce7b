// What an exchange tells of the others: whether the ends of their blocks agree, and whether they have come.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "shm_ranks.hpp"
#include "transport/transport.hpp"

namespace tapa {
namespace {

using namespace shm_test;

// Ends of blocks are compared on the way. All members of an exchange, one after the other in one thread.
class Compared : public testing::Test {
 protected:
  using Compare = ShmExchange::Compare;

  /// What one member sends and expects, and how: equal blocks may go without a table.
  struct Call {
    bool uniform = false;
    std::vector<std::size_t> sends;
    std::vector<std::size_t> expects;
  };
  using Calls = std::vector<Call>;

  /// Which members say that sizes agree, and which bytes all have sent.
  struct Result {
    std::size_t agree = 0;
    std::size_t differ = 0;
    std::size_t failed = 0;
    std::size_t wrong_totals = 0;
  };

  explicit Compared() {
    for (std::size_t members = 1; members <= kMost; ++members) {
      memories_.push_back(std::make_unique<Memory>(members));
      for (std::size_t self = 0; self < members; ++self)
        buffers_[members].push_back(memories_.back()->buffers(self));
    }
  }

  /// Blocks of these sizes, one behind the other in `memory`.
  static std::vector<ShmBlock> cut(const std::vector<std::size_t>& sizes, Bytes& memory) {
    memory.resize(std::accumulate(sizes.begin(), sizes.end(), std::size_t{1}));
    std::vector<ShmBlock> blocks;
    std::size_t at = 0;
    for (const std::size_t bytes : sizes) {
      blocks.push_back({memory.data() + at, bytes});
      at += bytes;
    }
    return blocks;
  }

  /// To the end of all, in turn.
  static void advance_all(std::span<ShmExchange> exchanges, Result& result) {
    std::vector<bool> done(exchanges.size());
    const auto advance = [&](std::size_t self) {
      try {
        return exchanges[self].advance();
      } catch (const TransportError&) {
        ++result.failed;
        return true;
      }
    };
    for (int look = 0; look < 10'000 && std::ranges::count(done, false) > 0; ++look) {
      for (std::size_t self = 0; self < exchanges.size(); ++self) done[self] = done[self] || advance(self);
    }
    EXPECT_EQ(std::ranges::count(done, false), 0) << "hangs";
  }

  Result run(const Calls& calls, Compare compare, bool overlap = false) {
    const std::size_t members = calls.size();
    const auto exchanges = std::span(exchanges_).first(members);
    std::vector<Bytes> out(members), in(members);
    std::vector<std::vector<ShmBlock>> send(members), recv(members);
    for (std::size_t self = 0; self < members; ++self) {
      send[self] = cut(calls[self].sends, out[self]);
      recv[self] = cut(calls[self].expects, in[self]);
      ShmBuffers& buffers = *buffers_[members][self];
      if (calls[self].uniform) {
        exchanges[self].begin(buffers, out[self].data(), in[self].data(), calls[self].sends[0]);
      } else {
        exchanges[self].begin(buffers, send[self], recv[self], nullptr, overlap, compare);
      }
    }
    Result result;
    advance_all(exchanges, result);
    std::uint64_t total = 0;
    for (const Call& call : calls) total = std::accumulate(call.sends.begin(), call.sends.end(), total);
    const bool tables = std::ranges::none_of(calls, &Call::uniform);
    for (const ShmExchange& exchange : exchanges) {
      ++(exchange.sizes_agree() ? result.agree : result.differ);
      result.wrong_totals += tables && exchange.total_bytes() != total ? 1U : 0U;
    }
    EXPECT_EQ(result.wrong_totals, 0U);
    return result;
  }

  void expect_agree(const Calls& calls, Compare compare, bool overlap = false) {
    const Result result = run(calls, compare, overlap);
    EXPECT_EQ(result.agree, calls.size());
    EXPECT_EQ(result.failed, 0U);
  }
  void expect_differ(const Calls& calls, Compare compare, bool overlap = false) {
    EXPECT_EQ(run(calls, compare, overlap).differ, calls.size());
  }

  std::size_t draw(std::size_t below) { return random_() % below; }
  /// Often empty; in the table, in the buffer, in slots, in several rounds.
  std::size_t size() {
    constexpr std::array<std::size_t, 8> sizes{0, 0, 1, 8, 33, 600, 5000, 100'000};
    const std::size_t bytes = sizes[draw(sizes.size())];
    return bytes == 0 ? 0 : bytes + draw(3);
  }
  static std::size_t other_than(std::size_t bytes, std::size_t by) {
    return bytes >= by && by % 2 == 0 ? bytes - by : bytes + by;
  }
  Calls random_calls(std::size_t members) {
    Calls calls(members, {false, std::vector<std::size_t>(members), std::vector<std::size_t>(members)});
    for (std::size_t from = 0; from < members; ++from) {
      for (std::size_t to = 0; to < members; ++to) calls[from].sends[to] = calls[to].expects[from] = size();
    }
    return calls;
  }
  static Call equal(std::size_t members, std::size_t bytes, bool uniform) {
    return {uniform, std::vector<std::size_t>(members, bytes), std::vector<std::size_t>(members, bytes)};
  }
  /// Lets blocks stay with their senders, or not any more.
  void let_stay(std::size_t members, std::size_t from) {
    for (const auto& buffers : buffers_[members])
      buffers->let_stay(std::vector<pid_t>(members, getpid()), from);
  }

  static constexpr std::size_t kMost = 6;
  std::mt19937 random_{5};
  std::vector<std::unique_ptr<Memory>> memories_;
  std::array<std::vector<std::unique_ptr<ShmBuffers>>, kMost + 1> buffers_;
  std::array<ShmExchange, kMost> exchanges_;
};

TEST_F(Compared, EveryBlockThatDiffersIsSeenByAll) {
  for (std::size_t members = 1; members <= kMost; ++members) {
    for (const bool stay : {false, true}) {
      if (stay) let_stay(members, 500);
      Calls calls = random_calls(members);
      expect_agree(calls, Compare::blocks);
      for (std::size_t from = 0; from < members; ++from) {
        for (std::size_t to = 0; to < members; ++to) {
          for (const bool at_sender : {true, false}) {
            std::size_t& bytes = at_sender ? calls[from].sends[to] : calls[to].expects[from];
            const std::size_t right = bytes;
            bytes = other_than(right, 1 + draw(9));
            expect_differ(calls, Compare::blocks);
            bytes = right;
            expect_agree(calls, Compare::blocks);
          }
        }
      }
    }
  }
}

// Though all sums are right.
TEST_F(Compared, BlocksThatAreMistakenForEachOtherAreSeenByAll) {
  for (int trial = 0; trial < 300; ++trial) {
    const std::size_t members = 2 + draw(kMost - 1);
    Calls calls = random_calls(members);
    const std::size_t self = draw(members);
    auto& sizes = trial % 2 == 0 ? calls[self].sends : calls[self].expects;
    const std::size_t a = draw(members);
    const std::size_t b = draw(members);
    if (sizes[a] == sizes[b]) continue;
    std::swap(sizes[a], sizes[b]);
    expect_differ(calls, Compare::blocks);
  }
}

TEST_F(Compared, WhatAgreesIsNeverSaidToDiffer) {
  for (int trial = 0; trial < 400; ++trial) {
    const std::size_t members = 1 + draw(kMost);
    if (trial == 200) let_stay(members, 100);
    expect_agree(random_calls(members), Compare::blocks);
    const std::size_t bytes = size();
    Calls equal_calls;
    for (std::size_t self = 0; self < members; ++self)
      equal_calls.push_back(equal(members, bytes, bytes > 0 && draw(2) == 0));
    expect_agree(equal_calls, Compare::sums);
    for (Call& call : equal_calls) call.uniform = false;
    expect_agree(equal_calls, Compare::blocks);
    expect_agree(equal_calls, Compare::nothing);
  }
}

// Nobody compares: what is shorter is not an error, and what is longer only its receiver's.
TEST_F(Compared, NothingIsSaidUnlessAsked) {
  Calls calls = random_calls(3);
  calls[0].sends[1] = 5;
  calls[1].expects[0] = 9;
  expect_agree(calls, Compare::nothing);
}

TEST_F(Compared, ARankWhoseEqualBlocksDifferIsSeenByAll) {
  constexpr std::array<std::size_t, 7> sizes{0, 1, 8, 100, 700, 5000, 90'000};
  for (std::size_t members = 2; members <= kMost; ++members) {
    for (int trial = 0; trial < 60; ++trial) {
      const std::size_t bytes = sizes[draw(sizes.size())];
      const std::size_t other = other_than(bytes, 1 + draw(9));
      const std::size_t odd = draw(members);
      const std::size_t forms = draw(3);  // all without tables, all with, or some
      Calls calls;
      for (std::size_t self = 0; self < members; ++self) {
        const std::size_t own = self == odd ? other : bytes;
        calls.push_back(equal(members, own, forms == 0 || (forms == 2 && draw(2) == 0)));
      }
      expect_differ(calls, Compare::sums);
      calls[odd] = equal(members, bytes, calls[odd].uniform);
      expect_agree(calls, Compare::sums);
    }
  }
}

// Blocks may lie where others come to.
TEST_F(Compared, BlocksThatMayOverlapAreComparedToo) {
  for (std::size_t members = 1; members <= kMost; ++members) {
    Calls calls = random_calls(members);
    for (std::size_t from = 0; from < members; ++from) {
      for (std::size_t to = 0; to < members; ++to)
        calls[from].sends[to] = calls[to].expects[from] = std::min<std::size_t>(calls[from].sends[to], 700);
    }
    expect_agree(calls, Compare::blocks, true);
    calls[draw(members)].expects[draw(members)] += 1;
    expect_differ(calls, Compare::blocks, true);
  }
}

TEST(ShmExchange, KnowsWhetherAllHaveCome) {
  constexpr std::size_t members = 3;
  constexpr std::size_t bytes = 200'000;  // more rounds than one
  Memory memory(members);
  std::vector<std::unique_ptr<ShmBuffers>> buffers;
  for (std::size_t self = 0; self < members; ++self) buffers.push_back(memory.buffers(self));
  std::array<ShmExchange, members> exchanges;
  std::array<Bytes, members> out, in;
  for (int call = 0; call < 2; ++call) {
    const auto come = [&](std::size_t self) {
      out[self].resize(members * bytes);
      in[self].resize(members * bytes);
      exchanges[self].begin(*buffers[self], out[self].data(), in[self].data(), bytes);
      EXPECT_FALSE(exchanges[self].advance());
    };
    come(0);
    EXPECT_FALSE(exchanges[0].all_came());
    come(1);
    EXPECT_FALSE(exchanges[0].advance());
    EXPECT_FALSE(exchanges[0].all_came());
    EXPECT_FALSE(exchanges[1].all_came());
    EXPECT_EQ(exchanges[0].missing(5), std::vector<std::size_t>{2});
    come(2);
    EXPECT_TRUE(exchanges[2].all_came());
    std::array<bool, members> done{};
    for (int look = 0; look < 1000 && std::ranges::count(done, false) > 0; ++look) {
      for (std::size_t self = 0; self < members; ++self) {
        done[self] = done[self] || exchanges[self].advance();
        EXPECT_TRUE(exchanges[self].all_came());
      }
    }
    EXPECT_EQ(std::ranges::count(done, true), 3);
  }
}

}  // namespace
}  // namespace tapa
