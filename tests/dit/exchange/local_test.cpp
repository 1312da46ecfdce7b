// The local plugin when all goes well; what every plugin must do is in the conformance test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "exchange/exchange.hpp"
#include "exchange/local/local_ranks.hpp"

namespace dit {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using testing::ElementsAre;

/// Equal blocks of ints for everybody: rank r sends 100 * r + peer, `count` times.
struct EqualBlocks {
  EqualBlocks(const ExchangeContext& context, std::size_t count) {
    const auto size = static_cast<std::size_t>(context.size());
    for (std::size_t peer = 0; peer < size; ++peer) {
      sent.insert(sent.end(), count, 100 * context.rank() + static_cast<int>(peer));
      expected.insert(expected.end(), count, 100 * static_cast<int>(peer) + context.rank());
      blocks.push_back({peer * count * sizeof(int), count * sizeof(int)});
    }
    received.assign(sent.size(), -1);
    call.send = sent.data();
    call.recv = received.data();
    call.send_blocks = call.recv_blocks = blocks.data();
  }
  EqualBlocks(const EqualBlocks&) = delete;
  EqualBlocks& operator=(const EqualBlocks&) = delete;
  std::vector<int> sent, received, expected;
  std::vector<dit_block> blocks;
  dit_exchange_call call{};
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

TEST(Local, LevelsFollowRanksPerNode) {
  run_local_ranks({5, 2}, [](ExchangeContext& context) {
    EXPECT_THAT(context.levels(), ElementsAre("node", "world"));
    EXPECT_EQ(context.slow_level(), 1);
    for (int peer = 0; peer < 5; ++peer)
      EXPECT_EQ(context.level_of(peer), peer / 2 == context.rank() / 2 ? 0 : 1);
  });
  run_local_ranks({2, 4}, [](ExchangeContext& context) {
    EXPECT_THAT(context.levels(), ElementsAre("node", "world"));
    EXPECT_EQ(context.slow_level(), 2) << "there is one node only";
  });
}

TEST(Local, SplitGroupsKnowTheirNodes) {
  run_local_ranks({6, 2}, [](ExchangeContext& context) {
    const auto node = context.split(context.rank() / 2, 0);
    EXPECT_EQ(node->slow_level(), 2);
    EXPECT_EQ(node->level_of(1), 0);
    const auto lane = context.split(context.rank() % 2, 0);
    EXPECT_EQ(lane->slow_level(), 1);
    EXPECT_EQ(lane->level_of((lane->rank() + 1) % 3), 1);
  });
}

// All have started: the data is there before anybody calls test or wait.
TEST(Local, DataArrivesWithoutFurtherCalls) {
  std::atomic<int> started{0};
  run_local_ranks({4}, [&](ExchangeContext& context) {
    EqualBlocks data(context, 1000);
    ExchangeRequest request = context.start(data.call);
    ++started;
    while (started < 4) std::this_thread::yield();
    EXPECT_EQ(data.received, data.expected);
    EXPECT_TRUE(request.test());
  });
}

TEST(Local, TestDoesNotWait) {
  std::atomic<bool> first_has_tested{false};
  run_local_ranks({2}, [&](ExchangeContext& context) {
    EqualBlocks data(context, 1);
    while (context.rank() == 1 && !first_has_tested) std::this_thread::yield();
    ExchangeRequest request = context.start(data.call);
    if (context.rank() == 0) {
      EXPECT_FALSE(request.test());
      first_has_tested = true;
    }
    request.wait();
    EXPECT_EQ(data.received, data.expected);
  });
}

TEST(Local, RequestsMayBeWaitedForInAnyOrder) {
  run_local_ranks({3}, [](ExchangeContext& context) {
    EqualBlocks first(context, 3), second(context, 5);
    ExchangeRequest early = context.start(first.call);
    ExchangeRequest late = context.start(second.call);
    late.wait();
    early.wait();
    EXPECT_EQ(first.received, first.expected);
    EXPECT_EQ(second.received, second.expected);
  });
}

TEST(Local, CloseWaitsForWhatIsUnderWay) {
  run_local_ranks({3}, [](ExchangeContext& context) {
    EqualBlocks data(context, 10);
    dit_request* request = nullptr;
    data.call.struct_size = sizeof(data.call);
    ASSERT_EQ(context.plugin().table().start(context.handle(), &data.call, &request), DIT_OK);
    context.close();
    EXPECT_EQ(data.received, data.expected);
  });
}

// Two nodes of two ranks at 0.25 MB/s: each rank sends 2 x 25 kB off its node, so a NIC has 100 kB: 0.4 s.
// Messages queue, so a rank may have its last one before the NIC is done.
TEST(Local, EmulatedNicTakesItsTime) {
  std::array<Clock::time_point, 4> begins{};
  std::array<Clock::time_point, 4> ends{};
  run_local_ranks({4, 2, 0.25e6}, [&](ExchangeContext& context) {
    const auto rank = static_cast<std::size_t>(context.rank());
    EqualBlocks data(context, 6250);
    context.barrier();
    begins[rank] = Clock::now();
    ExchangeRequest request = context.start(data.call);
    EXPECT_LT(seconds_since(begins[rank]), 0.19) << "start waited for the NIC";
    request.wait();
    ends[rank] = Clock::now();
    EXPECT_GE(seconds_since(begins[rank]), 0.199);
    EXPECT_EQ(data.received, data.expected);
  });
  const std::chrono::duration<double> all = std::ranges::max(ends) - std::ranges::min(begins);
  EXPECT_GE(all.count(), 0.399);
}

TEST(Local, EmulatedNicMovesWhileTheRankIsBusy) {
  run_local_ranks({2, 1, 1e6}, [](ExchangeContext& context) {
    EqualBlocks data(context, 25000);  // 0.1 s
    context.barrier();
    const double before = context.totals().wait_seconds;
    ExchangeRequest request = context.start(data.call);
    EXPECT_FALSE(request.test());
    std::this_thread::sleep_for(1s);
    EXPECT_TRUE(request.test()) << "1 s was not enough for 0.1 s of data";
    EXPECT_LT(context.totals().wait_seconds - before, 0.1);
  });
}

TEST(Local, EmulatedNicIsNotUsedWithinANode) {
  const auto begin = Clock::now();
  run_local_ranks({4, 2, 1.0}, [](ExchangeContext& context) {  // a byte a second
    EqualBlocks data(context, 1);
    for (std::size_t peer = 0; peer < 4; ++peer)
      if (context.level_of(static_cast<int>(peer)) == 1) data.blocks[peer].bytes = 0;
    context.exchange(data.call);
  });
  EXPECT_LT(seconds_since(begin), 3);
}

TEST(Local, OptionsThatMakeNoSense) {
  const auto words = [](const LocalGroupOptions& options) -> std::string {
    try {
      run_local_ranks(options, [](ExchangeContext&) {});
    } catch (const ExchangeError& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_EQ(words({0}), "local ranks: ranks is 0, expected 1 to 1024");
  EXPECT_EQ(words({2, -1}), "local ranks: ranks_per_node is -1, expected 0 (no nodes) or more");
  EXPECT_EQ(words({2, 1, -1}), "local ranks: bytes_per_second is -1.000000, expected 0 (no limit) or more");
  EXPECT_EQ(
      words({2, 0, 10}),
      "local ranks: bytes_per_second is the rate of a node's NIC: ranks_per_node must be 1 or more with it");
  EXPECT_EQ(words({2, 0, 0, -3}), "local ranks: timeout_seconds is -3.000000, expected 0 (never) or more");
}

TEST(Local, MembersForThreadsOfOnesOwn) {
  std::vector<dit_local_member> members = make_local_group({2});
  const auto rank = [](dit_local_member& member) {
    ExchangeContext context(ExchangePlugin::load("local"), {&member, 0, ""});
    EqualBlocks data(context, 7);
    context.exchange(data.call);
    EXPECT_EQ(data.received, data.expected);
  };
  std::jthread other(rank, std::ref(members[1]));
  rank(members[0]);
}

TEST(Local, AMemberIsOneContextsAtATime) {
  std::vector<dit_local_member> members = make_local_group({2});
  const auto open = [&](std::size_t rank) {
    return ExchangeContext(ExchangePlugin::load("local"), {&members[rank], 0, ""});
  };
  {
    const ExchangeContext first = open(1);
    const ExchangeContext other = open(0);
    try {
      (void)open(1);
      FAIL();
    } catch (const ExchangeError& error) {
      EXPECT_EQ(error.status(), DIT_ERROR_ARGUMENT);
      EXPECT_STREQ(error.what(),
                   "exchange plugin local: options.communicator is rank 1 of a local group, which is open "
                   "already: expected that its context is closed before the next open");
    }
  }
  (void)open(1);
}

TEST(Local, MemberOfNoGroup) {
  dit_local_member member;
  try {
    const ExchangeContext context(ExchangePlugin::load("local"), {&member, 0, ""});
    FAIL();
  } catch (const ExchangeError& error) {
    EXPECT_STREQ(error.what(),
                 "exchange plugin local: options.communicator is not a member of a local group: rank 0");
  }
}

}  // namespace
}  // namespace dit
