/// Ranks as threads, each with its session, its group and one exchange.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "dit_torch.h"

namespace dit::test {

inline void require_ok(int status) {
  ASSERT_EQ(status, DIT_OK) << dit_torch_last_error();
}

/// An exchange as one rank has it.
struct Rank {
  int rank, ranks;
  std::string group, exchange;
  dit_session* session;
  dit_torch_attention attention;
  dit_torch_shape shape;
  dit_rank_part part;

  [[nodiscard]] std::int64_t tokens() const { return attention.text_tokens + attention.image_tokens; }
  /// Where image and text tokens begin in the joint sequence.
  [[nodiscard]] std::int64_t image_begin() const {
    return (attention.flags & DIT_LAYOUT_IMAGE_FIRST) != 0 ? 0 : attention.text_tokens;
  }
  [[nodiscard]] std::int64_t text_begin() const {
    return (attention.flags & DIT_LAYOUT_IMAGE_FIRST) != 0 ? attention.image_tokens : 0;
  }
  /// This rank's rows of a tensor [batch, tokens, heads, head_dim].
  [[nodiscard]] at::Tensor in_sequence(const at::Tensor& whole) const {
    const at::Tensor text = whole.slice(1, text_begin() + shape.text[0], text_begin() + shape.text[1]);
    const at::Tensor image = whole.slice(1, image_begin() + shape.image[0], image_begin() + shape.image[1]);
    return (attention.flags & DIT_LAYOUT_IMAGE_FIRST) != 0 ? at::cat({image, text}, 1)
                                                           : at::cat({text, image}, 1);
  }
  /// This rank's heads of it, of `what`.
  [[nodiscard]] at::Tensor in_heads(const at::Tensor& whole, int what) const {
    const bool query = what == DIT_SCATTER_QUERY || what == DIT_GATHER_OUTPUT;
    const dit_range heads = query ? part.heads : part.kv_heads;
    const at::Tensor own = whole.slice(2, heads.begin, heads.end);
    return query ? own.slice(1, part.query_tokens.begin, part.query_tokens.end) : own;
  }
};

inline dit_torch_attention attention_of(std::int64_t batch, std::int64_t text, std::int64_t image,
                                        std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim,
                                        unsigned flags = 0) {
  dit_torch_attention attention{};
  attention.struct_size = sizeof attention;
  attention.batch = batch;
  attention.text_tokens = text;
  attention.image_tokens = image;
  attention.heads = heads;
  attention.kv_heads = kv_heads;
  attention.head_dim = head_dim;
  attention.flags = flags;
  attention.element_type = DIT_ELEMENT_FP32;
  return attention;
}

inline void learn_part(Rank& own) {
  const dit_torch_attention& from = own.attention;
  const dit_attention_shape shape{sizeof shape, from.batch,    from.text_tokens, from.image_tokens,
                                  from.heads,   from.kv_heads, from.head_dim,    from.flags};
  dit_layout* layout = nullptr;
  require_ok(dit_layout_create(&shape, own.ranks, &layout));
  own.part.struct_size = sizeof own.part;
  require_ok(dit_layout_part(layout, own.rank, 0, 1, &own.part));
  require_ok(dit_layout_free(&layout));
  own.shape.struct_size = sizeof own.shape;
  require_ok(dit_torch_exchange_shape(own.exchange.c_str(), &own.shape));
}

/// Runs `body` on so many ranks; each is a node.
inline void on_ranks(int ranks, const dit_torch_attention& attention,
                     const std::function<void(Rank&)>& body) {
  dit_local_group* group = nullptr;
  require_ok(dit_local_group_create(ranks, 1, &group));
  const auto run = [&](int rank) {
    const std::string number = std::to_string(rank);
    Rank own{rank, ranks, "group of rank " + number, "exchange of rank " + number, nullptr, attention,
             {},   {}};
    dit_open_options options{};
    options.struct_size = sizeof options;
    options.timeout_seconds = 60;
    require_ok(dit_local_group_member(group, rank, &options.communicator));
    require_ok(dit_session_open("local", &options, &own.session));
    require_ok(dit_torch_attach(own.group.c_str(), own.session));
    require_ok(dit_torch_exchange(own.exchange.c_str(), own.group.c_str(), &attention));
    learn_part(own);
    const c10::InferenceMode inference;
    body(own);
    require_ok(dit_torch_close(own.group.c_str()));
    require_ok(dit_session_close(&own.session));
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(run, rank);
  for (std::thread& thread : threads) thread.join();
  require_ok(dit_local_group_free(&group));
}

/// Numbers that are the same on all ranks, and different in all places.
inline at::Tensor numbers(std::int64_t batch, std::int64_t rows, std::int64_t heads, std::int64_t head_dim,
                          double seed) {
  const std::int64_t count = batch * rows * heads * head_dim;
  return (at::arange(count, at::kDouble) * 0.37 + seed)
      .sin()
      .to(at::kFloat)
      .view({batch, rows, heads, head_dim});
}
inline at::Tensor numbers(const dit_torch_attention& of, bool query, double seed) {
  return numbers(of.batch, of.text_tokens + of.image_tokens, query ? of.heads : of.kv_heads, of.head_dim,
                 seed);
}

inline bool same_bits(const at::Tensor& one, const at::Tensor& other) {
  return one.sizes() == other.sizes() && one.scalar_type() == other.scalar_type() && at::equal(one, other);
}

}  // namespace dit::test
