// What goes wrong on one rank: who hears of it, in which words, and what is still good.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>

#include "bootstrap/line_ranks.hpp"
#include "faults/refuse.hpp"
#include "memory_group.hpp"

namespace dit {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

struct Refusal {
  dit_status status = DIT_OK;
  std::string words;
};

Refusal refusal_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const ExchangeError& error) {
    return {error.status(), error.what()};
  }
  return {};
}

double seconds_of(const std::function<void()>& action) {
  const auto begun = Clock::now();
  action();
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

/// As many bytes for each rank, each of one value.
struct Bytes {
  std::vector<unsigned char> sent, received;
  std::vector<dit_block> send_blocks, recv_blocks;
  dit_exchange_call call{};

  Bytes(int ranks, unsigned char value, std::size_t bytes = 8) : sent(bytes, value) {
    for (int peer = 0; peer < ranks; ++peer) {
      send_blocks.push_back({0, bytes});
      recv_blocks.push_back({static_cast<std::size_t>(peer) * bytes, bytes});
    }
    received.resize(static_cast<std::size_t>(ranks) * bytes);
    call.send = sent.data();
    call.recv = received.data();
    call.send_blocks = send_blocks.data();
    call.recv_blocks = recv_blocks.data();
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
};

/// Runs `body` in a thread for each rank.
void on_all(const MemoryGroup& group, const std::function<void(int rank)>& body) {
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < group.size(); ++rank) threads.emplace_back([&, rank] { body(rank); });
}

/// Until a thread of the plugin that has outlived its context is gone.
void wait_for_release(MemoryRank& rank) {
  for (int i = 0; i < 5000 && rank.released == 0; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(rank.released, 1);
}

TEST(BootstrapFailures, AFunctionThatFailsIsNamedWithItsWords) {
  MemoryGroup group(2);
  group.at(1).words = "the wire is cut";
  group.at(1).before = [](const char* function) { return std::string(function) == "alltoallv" ? 7 : 0; };
  on_all(group, [&](int rank) {
    ExchangeContext context = open_context(group, rank, {1, ""});
    Bytes bytes(2, 1);
    bytes.call.label = "v";
    ExchangeRequest request = context.start(bytes.call);
    const Refusal refusal = refusal_of([&] { request.wait(); });
    if (rank == 0) {
      EXPECT_EQ(refusal.status, DIT_ERROR_TIMEOUT);
      group.give_up();  // as the program's library would find out
      const Refusal later = refusal_of([&] { request.wait(); });
      EXPECT_EQ(later.status, DIT_ERROR_COMMUNICATION);
      EXPECT_THAT(later.words,
                  HasSubstr("exchange 'v': alltoallv of the program failed on rank 0 of 2 with code 97"));
    } else {
      EXPECT_EQ(refusal.status, DIT_ERROR_COMMUNICATION);
      EXPECT_THAT(refusal.words,
                  HasSubstr("exchange 'v': alltoallv of the program failed on rank 1 of 2 with "
                            "code 7: the wire is cut"));
    }
    EXPECT_FALSE(request.active());
    const Refusal next = refusal_of([&] { (void)context.start(bytes.call); });
    EXPECT_EQ(next.status, DIT_ERROR_COMMUNICATION);
    EXPECT_THAT(next.words, HasSubstr("has failed before"));
    EXPECT_EQ(refusal_of([&] { context.close(); }).words, "");  // it has been told
    EXPECT_EQ(group.at(rank).released, 1);
  });
}

TEST(BootstrapFailures, ALateRankIsNamedAndCompletesTheExchange) {
  MemoryGroup group(3);
  std::atomic<int> told{0};
  on_all(group, [&](int rank) {
    ExchangeContext context = open_context(group, rank, {1, ""});
    Bytes bytes(3, static_cast<unsigned char>(rank + 1));
    while (rank == 1 && told < 2) std::this_thread::sleep_for(1ms);
    ExchangeRequest request = context.start(bytes.call);
    if (rank != 1) {
      const Refusal refusal = refusal_of([&] { request.wait(); });
      EXPECT_EQ(refusal.status, DIT_ERROR_TIMEOUT);
      EXPECT_THAT(refusal.words, HasSubstr("missing: rank 1"));
      EXPECT_TRUE(request.active());
      EXPECT_FALSE(request.test());
      ++told;
    }
    while (request.active()) (void)refusal_of([&] { request.wait(); });
    for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(bytes.received[i], i / 8 + 1);
    context.barrier();
  });
}

// On channel 2 nobody is late.
TEST(BootstrapFailures, ALateRankHoldsUpItsChannelOnly) {
  MemoryGroup group(2);
  std::atomic<bool> go{false};
  on_all(group, [&](int rank) {
    ExchangeContext context = open_context(group, rank, {1, ""});
    const int late = context.open_channel();
    const int other = context.open_channel();
    Bytes held(2, 1), free(2, 2);
    held.call.channel = late;
    free.call.channel = other;
    ExchangeRequest request;
    if (rank == 0) request = context.start(held.call);
    for (int i = 0; i < 20; ++i) context.exchange(free.call);
    if (rank == 0) {
      const Refusal refusal = refusal_of([&] { request.wait(); });
      EXPECT_THAT(refusal.words, AllOf(HasSubstr("of channel 1"), HasSubstr("missing: rank 1")));
      go = true;
    } else {
      while (!go) std::this_thread::sleep_for(1ms);
      request = context.start(held.call);
    }
    while (request.active()) (void)refusal_of([&] { request.wait(); });
    EXPECT_EQ(held.received[0] + held.received[8], 2);
    context.barrier();
  });
}

TEST(BootstrapFailures, WhatIsGivenUpIsReleasedWhenItIsDone) {
  MemoryGroup group(2);
  std::atomic<bool> go{false};
  on_all(group, [&](int rank) {
    ExchangeContext context = open_context(group, rank, {30, ""});
    auto bytes = std::make_shared<Bytes>(2, static_cast<unsigned char>(rank + 1));
    const std::weak_ptr<Bytes> watched = bytes;
    while (rank == 1 && !go) std::this_thread::sleep_for(1ms);
    ExchangeRequest request = context.start(bytes->call);
    if (rank == 0) {
      request.cancel(std::move(bytes));
      EXPECT_FALSE(watched.expired());
      go = true;
    } else {
      request.wait();
      EXPECT_EQ(bytes->received[0], 1);  // with rank 0's data
    }
    context.barrier();
    EXPECT_EQ(watched.expired(), rank == 0);
  });
}

TEST(BootstrapFailures, CloseEndsWhenARankNeverComes) {
  MemoryGroup group(2);
  on_all(group, [&](int rank) {
    ExchangeContext context = open_context(group, rank, {1, ""});
    context.barrier();
    if (rank == 1) return context.close();
    const auto bytes = std::make_shared<Bytes>(2, 1);
    ExchangeRequest request = context.start(bytes->call);
    request.cancel(bytes);
    Refusal refusal;
    EXPECT_LT(seconds_of([&] { refusal = refusal_of([&] { context.close(); }); }), 5.0);
    EXPECT_EQ(refusal.status, DIT_ERROR_TIMEOUT);
    EXPECT_THAT(refusal.words, HasSubstr("missing: rank 1"));
    EXPECT_EQ(group.at(0).released, 0);  // its allgather has not returned
    group.give_up();
    wait_for_release(group.at(0));
  });
  EXPECT_EQ(group.at(1).released, 1);
}

TEST(BootstrapFailures, OpenEndsWhenARankNeverComes) {
  MemoryGroup group(2);
  Refusal refusal;
  EXPECT_LT(seconds_of([&] { refusal = refusal_of([&] { (void)open_context(group, 0, {0.3, ""}); }); }), 5.0);
  EXPECT_EQ(refusal.status, DIT_ERROR_TIMEOUT);
  EXPECT_THAT(refusal.words, HasSubstr("open has not ended after 0.3"));
  EXPECT_EQ(group.at(0).released, 0);
  group.give_up();
  wait_for_release(group.at(0));
}

TEST(BootstrapFailures, BlocksThatDoNotFitAreToldToAll) {
  MemoryGroup group(3);
  run_memory_ranks(group, [](ExchangeContext& context) {
    Bytes bytes(3, 1);
    bytes.call.label = "k";
    if (context.rank() == 2) bytes.send_blocks[0].bytes = 4;
    ExchangeRequest request = context.start(bytes.call);
    const Refusal refusal = refusal_of([&] { request.wait(); });
    EXPECT_EQ(refusal.status, DIT_ERROR_COMMUNICATION);
    EXPECT_THAT(refusal.words, HasSubstr("exchange 'k': rank 2 sends 4 bytes to rank 0, which expects 8"));
    EXPECT_FALSE(request.active());
    context.barrier();  // the context is as good as before
  });
}

TEST(BootstrapFailures, DifferentCallsAreToldToAll) {
  MemoryGroup group(2);
  run_memory_ranks(group, [](ExchangeContext& context) {
    const Refusal refusal = refusal_of([&] {
      if (context.rank() == 0)
        context.barrier();
      else
        (void)context.split(0, 0);
    });
    EXPECT_EQ(refusal.status, DIT_ERROR_COMMUNICATION);
    EXPECT_THAT(refusal.words, HasSubstr("rank 1 gathers 4 bytes of each rank"));
    context.barrier();
  });
}

TEST(BootstrapFailures, OptionsThatDifferAreRefusedOnAll) {
  struct Difference {
    std::function<void(dit_bootstrap&, dit_open_options&)> make;
    dit_status status;
    const char* words;
  };
  const Difference differences[] = {
      {[](dit_bootstrap& bootstrap, dit_open_options&) { bootstrap.alltoallv = nullptr; }, DIT_ERROR_ARGUMENT,
       "alltoallv is null on one and not on the other on rank 1 and on rank 0"},
      {[](dit_bootstrap& bootstrap, dit_open_options&) { bootstrap.make_part = nullptr; }, DIT_ERROR_ARGUMENT,
       "make_part is null on one and not on the other on rank 1"},
      {[](dit_bootstrap&, dit_open_options& options) { options.config = "speed=9"; }, DIT_ERROR_ARGUMENT,
       "speed"},
      {[](dit_bootstrap& bootstrap, dit_open_options&) { bootstrap.rank = 0; }, DIT_ERROR_COMMUNICATION,
       "what is not of rank 1"},
  };
  for (const Difference& difference : differences) {
    MemoryGroup group(2);
    on_all(group, [&](int rank) {
      dit_bootstrap bootstrap = group.bootstrap(rank);
      dit_open_options options{};
      options.struct_size = sizeof(options);
      options.communicator = &bootstrap;
      if (rank == 1) difference.make(bootstrap, options);
      const dit_exchange_plugin* const table = dit_exchange_bootstrap_plugin_v1(DIT_EXCHANGE_VERSION);
      dit_context* context = nullptr;
      EXPECT_EQ(table->open(&options, &context), difference.status);
      EXPECT_THAT(table->last_error(nullptr), HasSubstr(difference.words));
      EXPECT_EQ(context, nullptr);
      EXPECT_EQ(group.at(rank).released, difference.status == DIT_ERROR_ARGUMENT ? 0 : 1);
    });
  }
}

TEST(BootstrapFailures, AStructThatMakesNoSenseIsRefused) {
  MemoryGroup group(2);
  const std::pair<std::function<void(dit_bootstrap&)>, const char*> wrong[] = {
      {[](dit_bootstrap& bootstrap) { bootstrap.struct_size = 8; }, "struct_size is 8, expected"},
      {[](dit_bootstrap& bootstrap) { bootstrap.size = 0; }, "size is 0, expected 1 or more"},
      {[](dit_bootstrap& bootstrap) { bootstrap.rank = 2; }, "rank is 2, expected 0 to 1"},
      {[](dit_bootstrap& bootstrap) { bootstrap.allgather = nullptr; }, "allgather is null"}};
  for (const auto& [spoil, words] : wrong) {
    dit_bootstrap bootstrap = group.bootstrap(0);
    spoil(bootstrap);
    const Refusal refusal = refusal_of([&] {
      ExchangeContext(ExchangePlugin::linked(dit_exchange_bootstrap_plugin_v1), {&bootstrap, 1, ""});
    });
    EXPECT_EQ(refusal.status, DIT_ERROR_ARGUMENT);
    EXPECT_THAT(refusal.words, HasSubstr(words));
  }
  EXPECT_EQ(group.at(0).calls, 0);
  EXPECT_EQ(group.at(0).released, 0);
}

TEST(BootstrapFailures, PartsNeedAFunction) {
  MemoryGroup group(2);
  group.parts = false;
  run_memory_ranks(group, [](ExchangeContext& context) {
    const Refusal refusal = refusal_of([&] { (void)context.split(0, 0); });
    EXPECT_EQ(refusal.status, DIT_ERROR_UNSUPPORTED);
    EXPECT_THAT(refusal.words, HasSubstr("make_part is null"));
    context.barrier();
  });
}

TEST(BootstrapFailures, APartThatCannotBeMadeIsToldToAll) {
  MemoryGroup group(3);
  group.at(2).words = "no more groups";
  group.at(2).before = [](const char* function) { return std::string(function) == "make_part" ? 5 : 0; };
  run_memory_ranks(group, [](ExchangeContext& context) {
    const Refusal refusal = refusal_of([&] { (void)context.split(context.rank() == 0 ? 1 : 0, 0); });
    EXPECT_EQ(refusal.status, DIT_ERROR_COMMUNICATION);
    EXPECT_THAT(refusal.words,
                HasSubstr("make_part of the program failed on rank 2 of 3 with code 5: no more groups"));
    context.barrier();
  });
}

TEST(BootstrapFailures, HostMemoryIsRegisteredWhereDevicesAre) {
  MemoryGroup group(2);
  run_memory_ranks(group, [](ExchangeContext& context) {
    std::array<char, 64> memory{};
    const dit_exchange_plugin& table = context.plugin().table();
    if (table.register_memory == nullptr) {
      EXPECT_FALSE(context.moves_device_memory());
      return;
    }
    const RegisteredMemory registered = context.register_memory(memory.data(), memory.size());
    EXPECT_TRUE(registered.active());
    EXPECT_EQ(refusal_of([&] { (void)registered.peer_memory(1); }).status, DIT_ERROR_ARGUMENT);
    const Refusal refusal = refusal_of(
        [&] { (void)context.register_memory(memory.data(), context.rank() == 1 ? 0 : memory.size()); });
    EXPECT_EQ(refusal.status, DIT_ERROR_ARGUMENT);
    EXPECT_THAT(refusal.words, HasSubstr("pointer is not null and bytes is 0"));
    context.barrier();
  });
}

// What the end of device memory's exchanges asks of the ranks.
TEST(BootstrapFailures, RanksAgreeWithinALimit) {
  MemoryGroup group(2);
  on_all(group, [&](int rank) {
    const auto line = std::make_shared<Line>(std::make_unique<CallerFunctions>(group.bootstrap(rank), ""));
    line->start();
    LineRanks ranks(line, "the end", 30);
    EXPECT_EQ(ranks.greatest_within(rank == 0 ? 3 : 1, 30), 3);
    if (rank == 0) {
      EXPECT_EQ(ranks.greatest_within(0, 0.2), std::nullopt);
      EXPECT_THROW(ranks.allgather(&rank, &rank, sizeof(rank)), PluginFailure);
      EXPECT_FALSE(line->stop(0.05));
      group.give_up();
    } else {
      EXPECT_TRUE(line->stop(1));
    }
  });
  for (const int rank : {0, 1}) wait_for_release(group.at(rank));
}

// A process that may start no threads, as a sandbox may have it.
TEST(BootstrapFailures, ARefusedThreadIsNamed) {
  const auto open = [] {
    for (const long call : {SYS_clone, SYS_clone3})
      if (!faults::refuse_call(call, EPERM)) std::exit(77);
    const Refusal refusal = refusal_of([] {
      ExchangeContext(ExchangePlugin::linked(dit_exchange_bootstrap_plugin_v1), {nullptr, 1, ""});
    });
    std::cerr << refusal.words;
    std::_Exit(refusal.status);  // a search for leaks would start a thread
  };
  EXPECT_EXIT(open(), testing::ExitedWithCode(DIT_ERROR_UNSUPPORTED),
              "no thread could be started for the program's functions: Operation not permitted");
}

}  // namespace
}  // namespace dit
