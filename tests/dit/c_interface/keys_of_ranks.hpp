/// Sessions of ranks that are threads, and a transfer of each.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "dit/dit.h"

namespace dit_test {

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
inline void run_ranks(const char* plugin, int ranks, double limit, const Body& body) {
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

}  // namespace dit_test
