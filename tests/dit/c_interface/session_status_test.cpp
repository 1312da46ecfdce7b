// What was not completed is never handed over as complete: by plugins that free what is late, behind a
// device's stream, by a context that has failed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>

#include "exchange/linked_plugins.hpp"
#include "exchange/local/local_ranks.hpp"
#include "exchange/struct_sizes.hpp"
#include "keys_of_ranks.hpp"

namespace {

using dit_test::Keys;
using dit_test::run_ranks;
using testing::HasSubstr;

/// The local plugin as one that was built for the first table: a request that is late is freed.
dit_exchange_plugin first_table() {
  dit_exchange_plugin table = *dit::dit_exchange_local_plugin_v1(DIT_EXCHANGE_VERSION);
  table.struct_size = dit::first_table_bytes;
  table.name = "first";
  table.wait = [](dit_context* context, dit_request** request) {
    const dit_exchange_plugin& local = *dit::dit_exchange_local_plugin_v1(DIT_EXCHANGE_VERSION);
    const dit_status status = local.wait(context, request);
    if (status != DIT_OK && *request != nullptr) (void)local.cancel(context, request, nullptr, nullptr);
    return status;
  };
  return table;
}

std::atomic<bool> device_failed{false};

/// The local plugin with streams, and a device that fails behind them.
dit_exchange_plugin streaming_table() {
  dit_exchange_plugin table = *dit::dit_exchange_local_plugin_v1(DIT_EXCHANGE_VERSION);
  table.name = "streaming";
  table.wait_stream = [](dit_context*, dit_request*, void*) { return DIT_OK; };
  table.check = [](dit_context*) { return device_failed ? DIT_ERROR_COMMUNICATION : DIT_OK; };
  table.last_error = [](const dit_context*) { return "rank 1 did not arrive"; };
  return table;
}

/// Made once, as each rank is a thread that loads it.
template <dit_exchange_plugin (*make)()>
const dit_exchange_plugin* plugin(uint32_t) {
  static const dit_exchange_plugin table = make();
  return &table;
}

// A wait that is repeated, as dit.h says, ends with an error.
TEST(SessionStatus, WhatWasFreedLateIsNotComplete) {
  dit::link_exchange_plugin("first", plugin<first_table>);
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
  dit::link_exchange_plugin("streaming", plugin<streaming_table>);
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
