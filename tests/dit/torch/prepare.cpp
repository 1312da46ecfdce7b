// Norm and rotary position embedding on the way, against torch.
#include "operators.hpp"
#include "ranks.hpp"

namespace dit::test {
namespace {

at::Tensor normed(const at::Tensor& x, at::IntArrayRef dims, double epsilon) {
  return x * (x.pow(2).mean(dims, true) + epsilon).rsqrt();
}

/// Halves or neighbours of a head turned by the tables [tokens, head_dim / 2].
at::Tensor turned(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine, int rope) {
  const at::Tensor c = cosine.unsqueeze(1), s = sine.unsqueeze(1);
  if (rope == DIT_ROPE_HALVES) {
    const auto parts = x.chunk(2, 3);
    return at::cat({parts[0] * c - parts[1] * s, parts[1] * c + parts[0] * s}, 3);
  }
  const at::Tensor even = x.slice(3, 0, c10::nullopt, 2), odd = x.slice(3, 1, c10::nullopt, 2);
  return at::stack({even * c - odd * s, odd * c + even * s}, 4).flatten(3);
}

struct Case {
  int norm, rope;
  bool text_weight;
};

/// Text tokens have their own weight.
at::Tensor weighted(const Rank& own, const at::Tensor& x, const Prepared& how, at::IntArrayRef view) {
  const at::Tensor image = x * how.weight->view(view);
  if (!how.text_weight.has_value()) return image;
  at::Tensor both = image.clone();
  const auto text = [&](const at::Tensor& from) {
    return from.slice(1, own.text_begin(), own.text_begin() + own.attention.text_tokens);
  };
  text(both).copy_(text(x) * how.text_weight->view(view));
  return both;
}

at::Tensor expected(const Rank& own, at::Tensor x, const Prepared& how) {
  const dit_torch_attention& of = own.attention;
  if (how.norm == DIT_NORM_HEAD) x = weighted(own, normed(x, {3}, how.epsilon), how, {of.head_dim});
  if (how.norm == DIT_NORM_TOKEN)
    x = weighted(own, normed(x, {2, 3}, how.epsilon), how, {x.size(2), of.head_dim});
  return how.rope == DIT_ROPE_NONE ? x : turned(x, *how.cosine, *how.sine, static_cast<int>(how.rope));
}

Prepared how_of(const Rank& own, const Case& of, std::int64_t heads, double seed) {
  const std::int64_t head_dim = own.attention.head_dim;
  const std::int64_t count = of.norm == DIT_NORM_TOKEN ? heads * head_dim : head_dim;
  Prepared how;
  how.norm = of.norm;
  how.rope = of.rope;
  how.epsilon = 1e-6;
  if (of.norm != DIT_NORM_NONE) how.weight = 1 + (at::arange(count, at::kFloat) + seed).sin() / 2;
  if (of.text_weight) how.text_weight = 1 + (at::arange(count, at::kFloat) + seed).cos() / 2;
  if (of.rope != DIT_ROPE_NONE) {
    const at::Tensor angle = at::arange(own.tokens(), at::kFloat).unsqueeze(1) *
                             (at::arange(head_dim / 2, at::kFloat) + 1).reciprocal();
    how.cosine = angle.cos();
    how.sine = angle.sin();
  }
  return how;
}

class Preparations : public testing::TestWithParam<Case> {};

TEST_P(Preparations, EqualThoseOfTorch) {
  const Case of = GetParam();
  for (const unsigned flags : {0U, unsigned{DIT_LAYOUT_TEXT_REPLICATED | DIT_LAYOUT_IMAGE_FIRST}}) {
    on_ranks(3, attention_of(2, 3, 9, 5, 5, 4, flags), [of](Rank& own) {
      const at::Tensor q = numbers(own.attention, true, 1), k = numbers(own.attention, false, 2);
      const Prepared how_q = how_of(own, of, 5, 0.5), how_k = how_of(own, of, 5, 0.7);
      const at::Tensor right_q = own.in_heads(expected(own, q, how_q), DIT_SCATTER_QUERY);
      const at::Tensor right_k = own.in_heads(expected(own, k, how_k), DIT_SCATTER_KEY);
      const at::Tensor own_q = own.in_sequence(q), own_k = own.in_sequence(k);
      const auto [query, key, value] = scatter_qkv(own_q, own_k, own_k, own.exchange, 0, how_q, how_k);
      EXPECT_TRUE(at::allclose(query, right_q, 1e-5, 1e-6));
      EXPECT_TRUE(at::allclose(key, right_k, 1e-5, 1e-6));
      EXPECT_TRUE(same_bits(value, own.in_heads(k, DIT_SCATTER_VALUE)));
      const at::Tensor token = start(own_q, own.exchange, DIT_SCATTER_QUERY, 0, how_q);
      EXPECT_TRUE(same_bits(finish(token, own.exchange, DIT_SCATTER_QUERY), query));
      EXPECT_TRUE(same_bits(exchange(own_k, own.exchange, DIT_SCATTER_KEY, 0, how_k), key));
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Preparations,
                         testing::Values(Case{DIT_NORM_HEAD, DIT_ROPE_INTERLEAVED, true},
                                         Case{DIT_NORM_HEAD, DIT_ROPE_NONE, false},
                                         Case{DIT_NORM_TOKEN, DIT_ROPE_INTERLEAVED, false},
                                         Case{DIT_NORM_NONE, DIT_ROPE_HALVES, false}));

}  // namespace
}  // namespace dit::test
