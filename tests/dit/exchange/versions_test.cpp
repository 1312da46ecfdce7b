// Callers and plugins of other versions of dit/exchange.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "exchange/exchange.hpp"
#include "exchange/local.hpp"
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
  EXPECT_NE(function_of(old, &dit_exchange_plugin::abort_job), nullptr);
  EXPECT_EQ(function_of(old, &dit_exchange_plugin::cancel), nullptr);
  EXPECT_FALSE(DIT_EXCHANGE_HAS(&old, open_channel));
  const dit_exchange_plugin& present = *dit_exchange_local_plugin_v1(DIT_EXCHANGE_VERSION);
  EXPECT_NE(function_of(present, &dit_exchange_plugin::open_channel), nullptr);
  EXPECT_TRUE(DIT_EXCHANGE_HAS(&present, cancel));
}

TEST(Versions, OldPluginsHaveOneChannel) {
  ExchangeContext context(first_plugin(), {});
  EXPECT_EQ(context.open_channel(), 0);
  EXPECT_EQ(context.open_channel(), 0);
  context.barrier();
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
