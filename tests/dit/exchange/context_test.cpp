// Contexts and the operations made of exchanges, over the local plugin.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>

#include "exchange/exchange.hpp"
#include "exchange/local/local_ranks.hpp"

namespace dit {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string words_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const ExchangeError& error) {
    return error.what();
  }
  return {};
}

ExchangeContext alone() {
  return {ExchangePlugin::load("local"), {}};
}

TEST(Context, OneRankNeedsNoCommunicator) {
  ExchangeContext context = alone();
  EXPECT_EQ(context.size(), 1);
  EXPECT_EQ(context.rank(), 0);
  EXPECT_THAT(context.levels(), ElementsAre("world"));
  EXPECT_EQ(context.slow_level(), 1);
  context.barrier();
  EXPECT_EQ(context.describe(), "local: rank 0 of 1; levels world; threads of one process");
}

TEST(Context, MovedContextsKeepTheirRequests) {
  ExchangeContext first = alone();
  const std::array<int, 1> sent{42};
  std::array<int, 1> received{};
  const dit_block block{0, sizeof(int)};
  dit_exchange_call call{};
  call.send = sent.data();
  call.recv = received.data();
  call.send_blocks = call.recv_blocks = &block;
  ExchangeRequest request = first.start(call);
  ExchangeContext second = std::move(first);
  ExchangeRequest moved = std::move(request);
  EXPECT_FALSE(request.active());  // NOLINT: what a move leaves behind
  moved.wait();
  EXPECT_FALSE(moved.active());
  EXPECT_TRUE(moved.test());
  EXPECT_EQ(received[0], 42);
  EXPECT_EQ(second.totals().exchanges, 1u);
}

TEST(Context, OpenErrorsHaveThePluginsWords) {
  EXPECT_EQ(words_of([] {
              ExchangeContext(ExchangePlugin::load("local"), {nullptr, 0, "levels=3"});
            }),
            "exchange plugin local: config has the unknown key 'levels', known keys: none");
  EXPECT_EQ(words_of([] {
              ExchangeContext(ExchangePlugin::load("local"), {nullptr, -2, ""});
            }),
            "exchange plugin local: options.timeout_seconds is -2.000000, expected 0 (never) or more");
}

TEST(Context, LevelsByName) {
  run_local_ranks({4, 2}, [](ExchangeContext& context) {
    EXPECT_EQ(context.level_named("node"), 0);
    EXPECT_EQ(context.level_named("world"), 1);
    EXPECT_EQ(words_of([&] { static_cast<void>(context.level_named("rack")); }),
              "there is no level 'rack' here; the levels of plugin local, fast to slow: node, world");
  });
}

TEST(Context, AllGather) {
  run_local_ranks({5}, [](ExchangeContext& context) {
    const std::array<int, 2> own{context.rank(), -context.rank()};
    const std::vector<std::byte> all = context.all_gather(std::as_bytes(std::span(own)));
    std::array<int, 10> values{};
    ASSERT_EQ(all.size(), sizeof(values));
    std::memcpy(values.data(), all.data(), all.size());
    EXPECT_THAT(values, ElementsAre(0, 0, 1, -1, 2, -2, 3, -3, 4, -4));
    EXPECT_TRUE(context.all_gather({}).empty());
  });
}

TEST(Context, AgreeOnError) {
  run_local_ranks({3}, [](ExchangeContext& context) {
    EXPECT_EQ(context.agree_on_error(""), "");
    EXPECT_EQ(context.agree_on_error(context.rank() == 2 ? "no such file" : ""), "rank 2: no such file");
    EXPECT_EQ(context.agree_on_error(context.rank() > 0 ? "bad " + std::to_string(context.rank()) : ""),
              "rank 1: bad 1 (1 other rank failed too)");
    EXPECT_EQ(context.agree_on_error("all"), "rank 0: all (2 other ranks failed too)");
  });
  EXPECT_EQ(alone().agree_on_error("just this"), "just this");
}

TEST(Context, LayoutIdsAreNeverGivenTwice) {
  ExchangeContext context = alone();
  const std::uint64_t first = context.take_layout_ids(3);
  EXPECT_GT(first, 0U);  // 0 means none
  EXPECT_EQ(context.take_layout_ids(1), first + 3);
  ExchangeContext moved = std::move(context);
  EXPECT_EQ(moved.take_layout_ids(1), first + 4);
  context = std::move(moved);
  EXPECT_EQ(context.take_layout_ids(2), first + 5);
}

TEST(Context, WrongCallsHaveThePluginsWords) {
  ExchangeContext context = alone();
  EXPECT_EQ(words_of([&] { context.exchange({}); }),
            "exchange plugin local: call.send_blocks is null, expected 1 blocks");
  const dit_block block{0, 0};
  dit_exchange_call call{};
  call.send_blocks = call.recv_blocks = &block;
  call.memory_kind = DIT_MEMORY_CUDA;
  try {
    context.exchange(call);
    FAIL() << "device memory was taken";
  } catch (const ExchangeError& error) {
    EXPECT_EQ(error.status(), DIT_ERROR_UNSUPPORTED);
    EXPECT_THAT(error.what(), HasSubstr("plugin local moves host memory only"));
  }
}

TEST(ContextDeathTest, AbortEndsTheProcess) {
  EXPECT_EXIT(alone().abort_job(3), testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace dit
