// The local plugin when a rank is late: what an exchange uses lives until it is done. Channels keep exchanges
// apart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "exchange/exchange.hpp"
#include "exchange/local/local_ranks.hpp"
#include "exchange/log.hpp"

namespace dit {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// An int for each of two ranks.
struct Ints {
  std::array<int, 2> sent, received{};
  std::array<dit_block, 2> blocks{dit_block{0, sizeof(int)}, dit_block{sizeof(int), sizeof(int)}};
  dit_exchange_call call{};

  explicit Ints(int value) : sent{value, value} {
    call.send = sent.data();
    call.recv = received.data();
    call.send_blocks = call.recv_blocks = blocks.data();
  }
  Ints(const Ints&) = delete;
  Ints& operator=(const Ints&) = delete;
};

std::string words_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const ExchangeError& error) {
    EXPECT_EQ(error.status(), DIT_ERROR_TIMEOUT);
    return error.what();
  }
  return {};
}

/// Two ranks; rank 1 starts its first exchange when rank 0 says so. Two barriers follow, the first in the
/// body.
void with_late_rank(const std::function<void(ExchangeContext&, std::atomic<bool>& go)>& body) {
  std::atomic<bool> go{false};
  std::vector<dit_local_member> members = make_local_group({2});
  const auto open = [&](std::size_t rank, double limit) {
    return ExchangeContext(ExchangePlugin::load("local"), {&members[rank], limit, ""});
  };
  const std::jthread late([&] {
    ExchangeContext context = open(1, 30);
    while (!go) std::this_thread::yield();
    Ints ints(10);
    context.exchange(ints.call);
    EXPECT_EQ(ints.received[0], 1);
    context.barrier();
    context.barrier();
  });
  ExchangeContext context = open(0, 0.5);
  body(context, go);
  context.barrier();
}

TEST(LocalLate, WhoWaitsAgainGetsTheBytes) {
  with_late_rank([](ExchangeContext& context, std::atomic<bool>& go) {
    Ints ints(1);
    ExchangeRequest request = context.start(ints.call);
    const std::string words = words_of([&] { request.wait(); });
    EXPECT_THAT(words, HasSubstr("exchange 1: rank 0 waited 0.500 s for rank 1 (has started 0 exchanges)"));
    EXPECT_TRUE(request.active());
    EXPECT_FALSE(request.test());
    go = true;
    while (request.active()) words_of([&] { request.wait(); });
    EXPECT_EQ(ints.received[1], 10);
    context.barrier();
  });
}

TEST(LocalLate, CancelKeepsBuffersForTheLateRank) {
  with_late_rank([](ExchangeContext& context, std::atomic<bool>& go) {
    auto ints = std::make_shared<Ints>(1);
    const std::weak_ptr<Ints> watched = ints;
    ExchangeRequest request = context.start(ints->call);
    request.cancel(std::move(ints));
    EXPECT_FALSE(request.active());
    EXPECT_EQ(watched.use_count(), 1);
    go = true;
    context.barrier();
    EXPECT_TRUE(watched.expired());
  });
}

TEST(LocalLate, ABlockingExchangeKeepsBuffersToo) {
  with_late_rank([](ExchangeContext& context, std::atomic<bool>& go) {
    auto ints = std::make_shared<Ints>(1);
    const std::weak_ptr<Ints> watched = ints;
    const dit_exchange_call call = ints->call;
    EXPECT_NE(words_of([&] { context.exchange(call, std::move(ints)); }), "");
    EXPECT_EQ(watched.use_count(), 1);
    go = true;
    context.barrier();
    EXPECT_TRUE(watched.expired());
  });
}

TEST(LocalLate, CloseReleasesWhatIsLate) {
  std::vector<dit_local_member> members = make_local_group({2});
  ExchangeContext context(ExchangePlugin::load("local"), {members.data(), 0.1, ""});
  auto ints = std::make_shared<Ints>(1);
  const std::weak_ptr<Ints> watched = ints;
  ExchangeRequest request = context.start(ints->call);
  request.cancel(std::move(ints));
  EXPECT_THAT(words_of([&] { context.close(); }), HasSubstr("for rank 1"));
  EXPECT_TRUE(watched.expired());
}

TEST(LocalLate, ReleaseIsCalledOnceAndAtOnceWhenDone) {
  ExchangeContext context(ExchangePlugin::load("local"), {});
  const dit_exchange_plugin& table = context.plugin().table();
  int released = 0;
  const dit_release count = [](void* user) { ++*static_cast<int*>(user); };
  dit_request* request = nullptr;
  EXPECT_EQ(table.cancel(context.handle(), &request, count, &released), DIT_OK);
  EXPECT_EQ(released, 1);
  const dit_block block{0, 0};
  dit_exchange_call call{};
  call.struct_size = sizeof(call);
  call.send_blocks = call.recv_blocks = &block;
  for (const dit_release release : {count, dit_release{nullptr}}) {
    ASSERT_EQ(table.start(context.handle(), &call, &request), DIT_OK);
    EXPECT_EQ(table.cancel(context.handle(), &request, release, &released), DIT_OK);
    EXPECT_EQ(request, nullptr);
    EXPECT_EQ(released, 2);
  }
  EXPECT_EQ(table.cancel(context.handle(), nullptr, count, &released), DIT_ERROR_ARGUMENT);
  context.close();
  EXPECT_EQ(released, 2);
}

// A rank that left is never waited for: nobody uses the buffers any more.
TEST(LocalLate, BuffersGoWhenTheJobFails) {
  std::weak_ptr<Ints> watched;
  EXPECT_THROW(run_local_ranks({2},
                               [&](ExchangeContext& context) {
                                 if (context.rank() == 1) throw std::domain_error("early");
                                 auto ints = std::make_shared<Ints>(1);
                                 watched = ints;
                                 const dit_exchange_call call = ints->call;
                                 ExchangeRequest request = context.start(call, std::move(ints));
                                 request.wait();
                               }),
               std::domain_error);
  EXPECT_TRUE(watched.expired());
}

TEST(LocalChannels, EachRankHasItsOwnOrder) {
  run_local_ranks({2, 0, 0, 30}, [](ExchangeContext& context) {
    const int first = context.open_channel();
    const int second = context.open_channel();
    EXPECT_EQ(first, 1);
    EXPECT_EQ(second, 2);
    std::array<Ints, 3> ints{Ints(100), Ints(200), Ints(300)};
    std::array<ExchangeRequest, 3> requests;
    for (int i = 0; i < 3; ++i) {
      const auto channel = static_cast<std::size_t>(context.rank() == 0 ? i : 2 - i);
      ints[channel].call.channel = static_cast<int>(channel);
      requests[channel] = context.start(ints[channel].call);
    }
    for (ExchangeRequest& request : requests) request.wait();
    for (const Ints& channel : ints) EXPECT_EQ(channel.received, channel.sent);
    context.barrier();
  });
}

// A thread for each channel of each rank; one of them gives half of its exchanges up.
TEST(LocalChannels, EachChannelMayHaveAThread) {
  run_local_ranks({2, 0, 0, 30}, [](ExchangeContext& context) {
    constexpr int count = 3;
    for (int channel = 1; channel < count; ++channel) EXPECT_EQ(context.open_channel(), channel);
    std::atomic<int> wrong{0};
    const auto work = [&](int channel) {
      for (int i = 0; i < 200; ++i) {
        const int value = 1000 * channel + i;
        auto ints = std::make_shared<Ints>(value);
        ints->call.channel = channel;
        if (i % 4 == 0) {
          context.exchange(ints->call);
        } else {
          ExchangeRequest request = context.start(ints->call);
          if (channel == 2 && i % 2 == 0) {
            request.cancel(std::move(ints));
            continue;
          }
          while (i % 4 == 1 && !request.test()) std::this_thread::yield();
          request.wait();
        }
        if (ints->received != ints->sent) ++wrong;
        if (context.totals().exchanges > 600) ++wrong;
      }
    };
    {
      std::vector<std::jthread> workers;
      for (int channel = 0; channel < count; ++channel) workers.emplace_back(work, channel);
    }
    EXPECT_EQ(wrong, 0);
    context.barrier();
  });
}

TEST(LocalChannels, ErrorsNameTheChannel) {
  ExchangeContext context(ExchangePlugin::load("local"), {});
  const dit_block block{0, 0};
  dit_exchange_call call{};
  call.send_blocks = call.recv_blocks = &block;
  call.channel = 1;
  try {
    context.exchange(call);
    FAIL() << "a channel that was not opened was taken";
  } catch (const ExchangeError& error) {
    EXPECT_STREQ(error.what(), "exchange plugin local: call.channel is 1, expected 0: no channel was opened");
  }
}

TEST(Log, LinesGoToTheSink) {
  std::vector<std::string> lines;
  set_log_sink([&](std::string_view line) { lines.emplace_back(line); });
  log_warning("one");
  set_log_sink([](std::string_view) { throw std::runtime_error("dropped"); });
  log_warning("two");
  set_log_sink({});
  testing::internal::CaptureStderr();
  log_warning("three");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "libdit: three\n");
  EXPECT_THAT(lines, testing::ElementsAre("one"));
}

}  // namespace
}  // namespace dit
