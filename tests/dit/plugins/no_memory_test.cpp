// Collective functions of an exchange over MPI where one rank has no memory for its part, for each single
// piece of it in turn: nobody waits, and what follows is right. The exchange is linked into the program.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "dit/exchange.h"
#include "without_memory.hpp"

extern "C" const dit_exchange_plugin* dit_exchange_plugin_v1(std::uint32_t wanted);

namespace {

const dit_exchange_plugin& plugin() {
  return *dit_exchange_plugin_v1(DIT_EXCHANGE_VERSION);
}

dit_status open(dit_context** context) {
  const dit_open_options options{sizeof(dit_open_options), nullptr, 60, "progress=calls"};
  return plugin().open(&options, context);
}

/// One byte to each rank.
bool exchanges(dit_context* context, int channel) {
  const auto size = static_cast<std::size_t>(plugin().size(context));
  const auto rank = static_cast<unsigned char>(plugin().rank(context));
  std::vector<unsigned char> sent(size, rank);
  std::vector<unsigned char> received(size);
  std::vector<dit_block> blocks;
  for (std::size_t peer = 0; peer < size; ++peer) blocks.push_back({peer, 1});
  dit_exchange_call call{};
  call.struct_size = sizeof call;
  call.send = sent.data();
  call.recv = received.data();
  call.send_blocks = call.recv_blocks = blocks.data();
  call.channel = channel;
  dit_request* request = nullptr;
  if (plugin().start(context, &call, &request) != DIT_OK || plugin().wait(context, &request) != DIT_OK)
    return false;
  for (std::size_t peer = 0; peer < size; ++peer)
    if (received[peer] != peer) return false;
  return true;
}

class NoMemoryInExchanges : public WithoutMemory {
 protected:
  /// `step` with a context that was opened before memory is refused, which works afterwards.
  void refuse_each_with_context(const std::function<void(dit_context*)>& step) {
    dit_context* context = nullptr;
    ASSERT_EQ(open(&context), DIT_OK) << plugin().last_error(nullptr);
    for (const int poor : {1, 0}) {
      refuse_each(poor, 1, [&] { step(context); });
      EXPECT_GT(pieces_, 0);
      EXPECT_TRUE(exchanges(context, 0)) << plugin().last_error(context);
    }
    EXPECT_EQ(plugin().close(context), DIT_OK) << plugin().last_error(nullptr);
  }
};

TEST_F(NoMemoryInExchanges, ForTheFirstContexts) {
  for (const int poor : {1, 0}) {
    refuse_each(poor, 1, [] {
      dit_context* context = nullptr;
      const dit_status status = open(&context);
      EXPECT_TRUE(alike(status == DIT_OK));
      EXPECT_EQ(status == DIT_OK, context != nullptr);
      if (context != nullptr) plugin().close(context);
    });
    EXPECT_GT(pieces_, 10);
  }
}

TEST_F(NoMemoryInExchanges, ForParts) {
  refuse_each_with_context([](dit_context* context) {
    dit_context* part = nullptr;
    EXPECT_TRUE(alike(plugin().split(context, 0, 0, &part) == DIT_OK));
    if (part != nullptr) plugin().close(part);
  });
}

TEST_F(NoMemoryInExchanges, ForChannels) {
  refuse_each_with_context([&](dit_context* context) {
    int channel = -1;
    const dit_status status = plugin().open_channel(context, &channel);
    EXPECT_TRUE(alike(status == DIT_OK));
    EXPECT_EQ(status == DIT_OK, channel >= 1);
  });
}

}  // namespace
