// What was not completed is never handed over as complete: by plugins that free what is late, behind a
// device's stream, by a context that has failed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "dit/dit.h"
#include "exchange/linked_plugins.hpp"
#include "exchange/local/local_ranks.hpp"
#include "exchange/struct_sizes.hpp"

namespace {

using testing::HasSubstr;

/// The local plugin as one that was built for the first table: a request that is late is freed.
const dit_exchange_plugin* first_plugin(uint32_t wanted) {
  static dit_exchange_plugin table = *dit::dit_exchange_local_plugin_v1(wanted);
  table.struct_size = dit::first_table_bytes;
  table.name = "first";
  table.wait = [](dit_context* context, dit_request** request) {
    const dit_exchange_plugin& local = *dit::dit_exchange_local_plugin_v1(DIT_EXCHANGE_VERSION);
    const dit_status status = local.wait(context, request);
    if (status != DIT_OK && *request != nullptr) (void)local.cancel(context, request, nullptr, nullptr);
    return status;
  };
  return &table;
}

bool device_failed = false;

/// The local plugin with streams, and a device that fails behind them.
const dit_exchange_plugin* streaming_plugin(uint32_t wanted) {
  static dit_exchange_plugin table = *dit::dit_exchange_local_plugin_v1(wanted);
  table.name = "streaming";
  table.wait_stream = [](dit_context*, dit_request*, void*) { return DIT_OK; };
  table.check = [](dit_context*) { return device_failed ? DIT_ERROR_COMMUNICATION : DIT_OK; };
  table.last_error = [](const dit_context*) { return "rank 1 did not arrive"; };
  return &table;
}

/// A session's transfer of keys, with its tensors.
struct Keys {
  explicit Keys(dit_session* session, int ranks) {
    dit_layout* layout = nullptr;
    dit_attention_shape shape{};
    shape.struct_size = sizeof(shape);
    shape.batch = 1;
    shape.image_tokens = 8;
    shape.heads = shape.kv_heads = 4;
    shape.head_dim = 2;
    EXPECT_EQ(dit_layout_create(&shape, ranks, &layout), DIT_OK) << dit_last_error();
    dit_transfer_options options{};
    options.struct_size = sizeof(options);
    options.kind = DIT_SCATTER_KEY;
    options.groups = 1;
    options.element_bytes = sizeof(float);
    made = dit_transfer_create(session, layout, &options, &transfer);
    (void)dit_layout_free(&layout);
    if (made != DIT_OK) return;
    std::size_t source_bytes = 0, target_bytes = 0;
    EXPECT_EQ(dit_transfer_bytes(transfer, &source_bytes, &target_bytes), DIT_OK);
    source.resize(source_bytes / sizeof(float));
    target.resize(target_bytes / sizeof(float));
  }
  dit_status start() {
    dit_transfer_call call{};
    call.struct_size = sizeof(call);
    call.source = {source.data(), source.size() * sizeof(float), 0, 0, 0};
    call.target = {target.data(), target.size() * sizeof(float), 0, 0, 0};
    return dit_transfer_start(transfer, &call);
  }
  dit_transfer* transfer = nullptr;
  dit_status made = DIT_OK;
  std::vector<float> source, target;
};

using Body = std::function<void(dit_session*& session, int rank)>;

/// Ranks as threads; what closing says is the body's affair.
void run_ranks(const char* plugin, int ranks, double limit, const Body& body) {
  dit_local_group* group = nullptr;
  ASSERT_EQ(dit_local_group_create(ranks, 0, &group), DIT_OK);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        dit_open_options options{};
        options.struct_size = sizeof(options);
        options.timeout_seconds = limit;
        dit_session* session = nullptr;
        ASSERT_EQ(dit_local_group_member(group, rank, &options.communicator), DIT_OK);
        ASSERT_EQ(dit_session_open(plugin, &options, &session), DIT_OK) << dit_last_error();
        body(session, rank);
        (void)dit_session_close(&session);
      });
  }
  EXPECT_EQ(dit_local_group_free(&group), DIT_OK);
}

// A wait that is repeated, as dit.h says, ends with an error.
TEST(SessionStatus, WhatWasFreedLateIsNotComplete) {
  dit::link_exchange_plugin("first", first_plugin);
  std::barrier both(2);
  run_ranks("first", 2, 0.2, [&](dit_session*& session, int rank) {
    Keys keys(session, 2);
    both.arrive_and_wait();
    if (rank == 0) {
      EXPECT_EQ(keys.start(), DIT_OK) << dit_last_error();
      dit_status status = DIT_ERROR_TIMEOUT;
      for (int waits = 0; status == DIT_ERROR_TIMEOUT && waits < 5; ++waits)
        status = dit_transfer_wait(keys.transfer);
      EXPECT_EQ(status, DIT_ERROR_COMMUNICATION);
      EXPECT_THAT(dit_last_error(), HasSubstr("rank 1 (has started"));
      int done = 0;
      EXPECT_EQ(dit_transfer_test(keys.transfer, &done), DIT_ERROR_COMMUNICATION);
      EXPECT_EQ(done, 0);
    }
    EXPECT_EQ(dit_transfer_free(&keys.transfer), DIT_OK) << dit_last_error();
    both.arrive_and_wait();
  });
}

TEST(SessionStatus, AStreamThatWaitedIsFollowedByAnError) {
  dit::link_exchange_plugin("streaming", streaming_plugin);
  device_failed = false;
  run_ranks("streaming", 1, 0, [](dit_session*& session, int) {
    Keys keys(session, 1);
    EXPECT_EQ(keys.start(), DIT_OK) << dit_last_error();
    EXPECT_EQ(dit_session_status(session), DIT_OK) << dit_last_error();
    EXPECT_EQ(dit_transfer_wait_stream(keys.transfer, nullptr), DIT_OK) << dit_last_error();
    device_failed = true;
    for (int again = 0; again < 2; ++again) {
      EXPECT_EQ(dit_session_status(session), DIT_ERROR_COMMUNICATION);
      EXPECT_STREQ(dit_last_error(), "dit_session_status: exchange plugin streaming: rank 1 did not arrive");
    }
    EXPECT_EQ(Keys(session, 1).made, DIT_ERROR_COMMUNICATION);
    dit_session* part = nullptr;
    EXPECT_EQ(dit_session_split(session, 0, 0, &part), DIT_ERROR_COMMUNICATION);
    EXPECT_THAT(dit_last_error(), HasSubstr("rank 1 did not arrive"));
    device_failed = false;
    EXPECT_EQ(dit_transfer_free(&keys.transfer), DIT_OK);
  });
}

// A rank that closes with something under way ends the group for all.
TEST(SessionStatus, AContextThatHasFailedSaysSo) {
  std::barrier both(2);
  run_ranks("local", 2, 0.2, [&](dit_session*& session, int rank) {
    Keys keys(session, 2);
    both.arrive_and_wait();
    EXPECT_EQ(dit_session_status(session), DIT_OK) << dit_last_error();
    if (rank == 0) {
      EXPECT_EQ(keys.start(), DIT_OK) << dit_last_error();
      EXPECT_EQ(dit_transfer_free(&keys.transfer), DIT_ERROR_TIMEOUT);
      EXPECT_EQ(dit_session_close(&session), DIT_ERROR_TIMEOUT);
      both.arrive_and_wait();
    } else {
      both.arrive_and_wait();
      EXPECT_EQ(dit_session_status(session), DIT_ERROR_COMMUNICATION);
      EXPECT_THAT(dit_last_error(), HasSubstr("rank 0 gave up"));
      EXPECT_EQ(dit_transfer_free(&keys.transfer), DIT_OK);
    }
  });
}

}  // namespace
