// Callers and plugins of other versions of dit/exchange.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "exchange/exchange.hpp"
#include "exchange/local/local_ranks.hpp"
#include "exchange/log.hpp"
#include "exchange/struct_sizes.hpp"
#include "old_caller.h"

namespace dit {
namespace {

// The local plugin as one that was built for the first table.
ExchangePlugin first_plugin() {
  return ExchangePlugin::linked([](uint32_t wanted) -> const dit_exchange_plugin* {
    static dit_exchange_plugin table = *dit_exchange_local_plugin_v1(wanted);
    table.struct_size = first_table_bytes;
    return &table;
  });
}

TEST(Versions, OldCallersAreServed) {
  EXPECT_EQ(old_table_bytes(), first_table_bytes);
  EXPECT_STREQ(old_exchange(), "");
}

TEST(Versions, WhatIsMissingCountsAsZero) {
  dit_exchange_call call{};
  call.channel = 7;
  call.struct_size = first_call_bytes;
  EXPECT_EQ(completed(call).channel, 0);
  EXPECT_EQ(completed(call).struct_size, sizeof(call));
}

TEST(Versions, FunctionsOfShortTablesAreNull) {
  const dit_exchange_plugin& old = first_plugin().table();
  EXPECT_NE(entry_of(old, &dit_exchange_plugin::abort_job), nullptr);
  EXPECT_EQ(entry_of(old, &dit_exchange_plugin::cancel), nullptr);
  EXPECT_FALSE(DIT_EXCHANGE_HAS(&old, open_channel));
  const dit_exchange_plugin& present = *dit_exchange_local_plugin_v1(DIT_EXCHANGE_VERSION);
  EXPECT_NE(entry_of(present, &dit_exchange_plugin::open_channel), nullptr);
  EXPECT_TRUE(DIT_EXCHANGE_HAS(&present, cancel));
}

TEST(Versions, OldPluginsHaveOneChannel) {
  ExchangeContext context(first_plugin(), {});
  EXPECT_EQ(context.open_channel(), 0);
  EXPECT_EQ(context.open_channel(), 0);
  context.barrier();
}

TEST(Versions, WhatAPluginCannotDoIsRefusedOrNothing) {
  ExchangeContext context(first_plugin(), {});
  EXPECT_FALSE(context.takes_strided());
  const std::array<dit_strided_block, 1> strided{};
  dit_exchange_call call{};
  call.send_strided = call.recv_strided = strided.data();
  try {
    context.exchange(call);
    FAIL() << "strides were taken";
  } catch (const ExchangeError& error) {
    EXPECT_EQ(error.status(), DIT_ERROR_UNSUPPORTED);
    EXPECT_STREQ(error.what(), "exchange plugin local takes no strided blocks, expected packed ones");
  }
  int value = 0;
  EXPECT_FALSE(context.register_memory(&value, sizeof(value)).active());
}

/// What a plugin with functions that the local one has not is asked for.
struct Asked {
  std::vector<std::string> calls;
} asked;

dit_memory* const handle = reinterpret_cast<dit_memory*>(&asked);

const dit_exchange_plugin* device_plugin(uint32_t wanted) {
  static dit_exchange_plugin table = *dit_exchange_local_plugin_v1(wanted);
  table.register_memory = [](dit_context*, void*, size_t bytes, int kind, int device, dit_memory** memory) {
    asked.calls.push_back("register " + std::to_string(bytes) + " of " + std::to_string(kind) + " on " +
                          std::to_string(device));
    *memory = handle;
    return DIT_OK;
  };
  table.unregister_memory = [](dit_context*, dit_memory** memory) {
    asked.calls.emplace_back(*memory == handle ? "unregister" : "unregister another");
    *memory = nullptr;
    return DIT_OK;
  };
  table.wait_stream = [](dit_context*, dit_request* request, void* stream) {
    asked.calls.emplace_back(request != nullptr && stream == &asked ? "wait_stream" : "wait for nothing");
    return DIT_OK;
  };
  return &table;
}

TEST(Versions, RegisteredMemoryAndStreams) {
  asked.calls.clear();
  const std::vector<dit_local_member> members = make_local_group({1});
  dit_local_member member = members.front();
  ExchangeContext context(ExchangePlugin::linked(device_plugin), {&member, 0, ""});
  {
    RegisteredMemory first = context.register_memory(&asked, 64, DIT_MEMORY_CUDA, 3);
    RegisteredMemory moved = std::move(first);
    EXPECT_TRUE(moved.active());
    EXPECT_FALSE(first.active());  // NOLINT: what a move leaves behind
  }
  const dit_block block{0, 0};
  dit_exchange_call call{};
  call.send_blocks = call.recv_blocks = &block;
  ExchangeRequest request = context.start(call);
  request.wait_stream(&asked);
  EXPECT_TRUE(request.active());
  request.wait();
  request.wait_stream(&asked);  // done: nothing to wait for
  EXPECT_THAT(asked.calls, testing::ElementsAre("register 64 of 1 on 3", "unregister", "wait_stream"));
}

/// Stores of the caller's kernels, as a request that waits for the local exchange of nothing.
const dit_exchange_plugin* storing_plugin(uint32_t wanted) {
  static dit_exchange_plugin table = *device_plugin(wanted);
  table.capabilities |= DIT_CAPABILITY_STORES;
  table.peer_memory = [](dit_context*, const dit_memory* memory, int rank, void** begin) {
    asked.calls.push_back("memory of rank " + std::to_string(rank));
    *begin = memory == handle && rank == 0 ? &asked : nullptr;
    return DIT_OK;
  };
  table.begin_stores = [](dit_context*, const dit_memory* memory, void* stream) {
    asked.calls.emplace_back(memory == handle && stream == &asked ? "begin" : "begin another");
    return DIT_OK;
  };
  table.end_stores = [](dit_context* context, const dit_memory* memory, void* stream, dit_request** request) {
    asked.calls.emplace_back(memory == handle && stream == &asked ? "end" : "end another");
    static const dit_block nothing{0, 0};
    dit_exchange_call call{};
    call.struct_size = sizeof(call);
    call.send_blocks = call.recv_blocks = &nothing;
    return dit_exchange_local_plugin_v1(DIT_EXCHANGE_VERSION)->start(context, &call, request);
  };
  return &table;
}

TEST(Versions, StoresAreARequest) {
  asked.calls.clear();
  const std::vector<dit_local_member> members = make_local_group({1});
  dit_local_member member = members.front();
  ExchangeContext context(ExchangePlugin::linked(storing_plugin), {&member, 0, ""});
  EXPECT_TRUE(context.takes_stores());
  EXPECT_TRUE(context.moves_device_memory());
  EXPECT_FALSE(context.takes_strided(DIT_MEMORY_CUDA));
  {
    const RegisteredMemory memory = context.register_memory(&asked, 64, DIT_MEMORY_CUDA, 0);
    EXPECT_EQ(memory.peer_memory(0), &asked);
    memory.begin_stores(&asked);
    ExchangeRequest request = memory.end_stores(&asked);
    EXPECT_TRUE(request.active());
    request.wait();
  }
  EXPECT_THAT(asked.calls, testing::ElementsAre("register 64 of 1 on 0", "memory of rank 0", "begin", "end",
                                                "unregister"));
}

const dit_exchange_plugin* half_storing_plugin(uint32_t wanted) {
  static dit_exchange_plugin table = *storing_plugin(wanted);
  table.end_stores = nullptr;
  return &table;
}

TEST(Versions, StoresWithoutTheirFunctionsAreRefused) {
  try {
    static_cast<void>(ExchangePlugin::linked(half_storing_plugin));
    FAIL() << "the table was taken";
  } catch (const ExchangeError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("has DIT_CAPABILITY_STORES"));
  }
}

// What is kept beside what is kept already.
TEST(Versions, BuffersAreKeptUntilTheRequestEnds) {
  ExchangeContext context(ExchangePlugin::load("local"), {});
  const dit_block block{0, 0};
  dit_exchange_call call{};
  call.send_blocks = call.recv_blocks = &block;
  std::weak_ptr<int> first, second;
  {
    const auto one = std::make_shared<int>(1), two = std::make_shared<int>(2);
    first = one;
    second = two;
    ExchangeRequest request = context.start(call, one);
    request.also_keep_alive(std::make_unique<KeptBuffers>(KeptBuffers{two, nullptr}));
    if (request.active()) {
      EXPECT_FALSE(first.expired());
      EXPECT_FALSE(second.expired());
    }
    request.wait();
  }
  EXPECT_TRUE(first.expired());
  EXPECT_TRUE(second.expired());
}

TEST(Versions, StreamsOfHostPluginsAreRefused) {
  ExchangeContext context(ExchangePlugin::load("local"), {});
  const dit_block block{0, 0};
  dit_exchange_call call{};
  call.send_blocks = call.recv_blocks = &block;
  ExchangeRequest request = context.start(call);
  try {
    request.wait_stream(nullptr);
    FAIL() << "a stream waits for host memory";
  } catch (const ExchangeError& error) {
    EXPECT_EQ(error.status(), DIT_ERROR_UNSUPPORTED);
  }
}

TEST(Versions, WhoRegistersMemoryAlsoEndsThat) {
  try {
    static_cast<void>(ExchangePlugin::linked([](uint32_t wanted) -> const dit_exchange_plugin* {
      static dit_exchange_plugin table = *device_plugin(wanted);
      table.unregister_memory = nullptr;
      return &table;
    }));
    FAIL() << "the table was taken";
  } catch (const ExchangeError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("unregister_memory, beside register_memory"));
  }
}

// They free a request that is late, and never say when its buffers are free.
TEST(Versions, OldPluginsKeepBuffersForGood) {
  struct Buffers {
    std::array<char, 2> sent{}, received{};
  };
  std::vector<std::string> lines;
  set_log_sink([&](std::string_view line) { lines.emplace_back(line); });
  std::vector<std::weak_ptr<Buffers>> kept;
  {
    const std::vector<dit_local_member> members = make_local_group({2});
    dit_local_member first = members.front();  // the other rank never comes
    ExchangeContext context(first_plugin(), {&first, 0.1, ""});
    const std::array<dit_block, 2> blocks{dit_block{0, 1}, dit_block{1, 1}};
    for (const bool waits : {true, false}) {
      auto buffers = std::make_shared<Buffers>();
      kept.emplace_back(buffers);
      dit_exchange_call call{};
      call.send = buffers->sent.data();
      call.recv = buffers->received.data();
      call.send_blocks = call.recv_blocks = blocks.data();
      ExchangeRequest request = context.start(call, std::move(buffers));
      if (waits)
        EXPECT_THROW(request.wait(), ExchangeError);
      else
        request.cancel();
      EXPECT_FALSE(request.active());
    }
  }
  set_log_sink({});
  for (const auto& buffers : kept) EXPECT_EQ(buffers.use_count(), 1);
  EXPECT_THAT(lines, testing::ElementsAre(testing::HasSubstr("rank 0 waited 0.100 s for rank 1")));
}

}  // namespace
}  // namespace dit
