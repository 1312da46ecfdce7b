#include "models/pixel_dit.hpp"

#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../message_of.hpp"
#include "models/attention.hpp"
#include "models/patches.hpp"

namespace dit {
namespace {

using testing::HasSubstr;

PixelDitConfig small_config() {
  PixelDitConfig config;
  config.width = 24;
  config.heads = 3;
  config.head_dim = 8;
  config.layers = 2;
  config.classes = 4;
  return config;
}

/// Weights without the zeros that make a fresh model blind.
PixelDit random_model(const PixelDitConfig& config) {
  TensorMap weights = PixelDit::initial_weights(config, 1);
  at::manual_seed(5);
  for (auto& [name, tensor] : weights) {
    tensor = tensor + at::randn(tensor.sizes()) * 0.05;
  }
  return {config, weights};
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

TEST(Patches, ComeBack) {
  const at::Tensor images = at::randn({2, 2, 12, 20});
  EXPECT_EQ(difference(unpatchify(patchify(images, 4), 4, 12, 20), images), 0);
}

TEST(Patches, ChannelIsSlowest) {
  const at::Tensor images = at::arange(2 * 8 * 8, at::kFloat).reshape({1, 2, 8, 8});
  const at::Tensor patches = patchify(images, 4);
  EXPECT_EQ(patches[0][1][0].item<float>(), images[0][0][0][4].item<float>());
  EXPECT_EQ(patches[0][2][16].item<float>(), images[0][1][4][0].item<float>());
}

TEST(PixelDit, FreshModelAnswersZero) {
  const PixelDit model(small_config(), PixelDit::initial_weights(small_config(), 3));
  const at::Tensor y = model.forward(at::randn({1, 2, 8, 8}), at::full({1}, 0.5), at::zeros({1}, at::kLong));
  EXPECT_EQ(y.abs().max().item<float>(), 0.0F);
}

TEST(PixelDit, LabelTimeAndPositionMatter) {
  const PixelDit model = random_model(small_config());
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::randn({1, 2, 8, 12});
  const at::Tensor base = model.forward(x, at::full({1}, 0.5), at::zeros({1}, at::kLong));
  EXPECT_GT(difference(base, model.forward(x, at::full({1}, 0.5), at::ones({1}, at::kLong))), 1e-4);
  EXPECT_GT(difference(base, model.forward(x, at::full({1}, 0.6), at::zeros({1}, at::kLong))), 1e-4);
  const at::Tensor rolled =
      model.forward(at::roll(x, {4}, {3}), at::full({1}, 0.5), at::zeros({1}, at::kLong));
  EXPECT_GT(difference(at::roll(base, {4}, {3}), rolled), 1e-5) << "without RoPE patches could change places";
}

TEST(PixelDit, RopeTurnsRowsAndColumnsApart) {
  const PixelDit model = random_model(small_config());
  const RopeTable table = model.rope({0, 6}, 3);  // two rows of three
  ASSERT_EQ(table.turns.sizes(), (at::IntArrayRef{6, 4}));
  const at::Tensor sin = at::imag(table.turns);
  EXPECT_NEAR(sin[4][0].item<double>(), std::sin(1.0), 1e-6);       // row 1, frequency 1
  EXPECT_NEAR(sin[2][2].item<double>(), std::sin(2.0), 1e-6);       // column 2, frequency 1
  EXPECT_NEAR(sin[2][3].item<double>(), std::sin(2.0 / 10), 1e-6);  // theta 100, two pairs per axis
  EXPECT_EQ(difference(model.rope({2, 5}, 3).turns, table.turns.narrow(0, 2, 3)), 0);
}

TEST(PixelDit, ScoresDependOnDistanceOnly) {  // what RoPE is for
  const PixelDit model = random_model(small_config());
  const at::Tensor h =
      at::randn({1, 1, 24}).expand({1, 12, 24}).contiguous();  // the same content at 12 places
  const RopeTable table = model.rope({0, 12}, 12);
  const at::Tensor q = model.block(0).query(h, table).select(2, 0)[0];
  const at::Tensor k = model.block(0).key(h, table).select(2, 0)[0];
  const at::Tensor scores = at::mm(q, k.t());
  EXPECT_NEAR(scores[2][5].item<double>(), scores[7][10].item<double>(), 1e-4);
}

TEST(Attention, HeadsAreIndependent) {
  const at::Tensor q = at::randn({2, 300, 4, 8});
  const at::Tensor k = at::randn({2, 70, 4, 8});
  const at::Tensor v = at::randn({2, 70, 4, 8});
  const at::Tensor all = attention(q, k, v);
  const at::Tensor part = attention(q.narrow(2, 1, 2), k.narrow(2, 1, 2), v.narrow(2, 1, 2));
  EXPECT_TRUE(at::equal(all.narrow(2, 1, 2), part));
  EXPECT_TRUE(
      at::equal(all.narrow(0, 1, 1), attention(q.narrow(0, 1, 1), k.narrow(0, 1, 1), v.narrow(0, 1, 1))));
}

/// The largest and the smallest scores that are still exponentiated as they are, in one row.
TEST(Attention, KnownLimitsOfScoresChangeRoundingOnly) {
  const at::NoGradGuard no_grad;
  const at::Tensor q = at::randn({1, 60, 2, 4});
  const at::Tensor k = at::randn({1, 500, 2, 4});
  const at::Tensor v = at::randn({1, 500, 2, 4});
  const double largest = (at::einsum("bqhd,bkhd->bhqk", {q, k}).abs().max() / 2).item<double>();
  const at::Tensor stretched = q * (39.9 / largest);
  const at::Tensor expected = attention(stretched.to(at::kDouble), k.to(at::kDouble), v.to(at::kDouble));
  EXPECT_LT(difference(attention(stretched, k, v, 40.0).to(at::kDouble), expected), 3e-5);
  EXPECT_LT(difference(attention(stretched, k, v).to(at::kDouble), expected), 3e-5);
  EXPECT_FALSE(at::equal(attention(stretched, k, v, 40.0), attention(stretched, k, v)))
      << "the limit is used";
  // Beyond the limit, and with short numbers, the largest score is taken off first.
  EXPECT_TRUE(at::equal(attention(q * 1e4, k, v, 1e9), attention(q * 1e4, k, v)));
  const auto brief = [](const at::Tensor& t) { return t.to(at::kBFloat16); };
  EXPECT_TRUE(
      at::equal(attention(brief(q), brief(k), brief(v), 1.0), attention(brief(q), brief(k), brief(v))));
}

// Decoded queries and keys need not be within what the model's norms allow.
TEST(Attention, NumbersBeyondTheirBoundAreNoOverflow) {
  const at::NoGradGuard no_grad;
  const at::Tensor q = at::randn({1, 60, 2, 4});
  const at::Tensor k = at::randn({1, 500, 2, 4});
  const at::Tensor v = at::randn({1, 500, 2, 4});
  const auto measured = [&](const at::Tensor& queries) { return attention(queries, k, v, 40.0, true); };
  EXPECT_TRUE(at::equal(measured(q * 100), attention(q * 100, k, v)));
  EXPECT_TRUE(at::equal(measured(q), attention(q, k, v, 40.0)));
  at::Tensor loud = q.clone();  // one head's norms are nothing to the others
  loud.select(2, 1) *= 100;
  const at::Tensor heads = measured(loud);
  EXPECT_TRUE(at::isfinite(heads).all().item<bool>());
  EXPECT_TRUE(at::equal(heads.select(2, 0), attention(q, k, v, 40.0).select(2, 0)));
  loud[0][3][0][2] = std::nan("");
  EXPECT_TRUE(at::isnan(measured(loud)[0][3][0]).all().item<bool>());
}

TEST(Attention, FollowsItsFormulaInDouble) {
  const auto options = at::TensorOptions(at::kDouble);
  const at::Tensor q = at::randn({1, 5, 4, 6}, options);
  const at::Tensor k = at::randn({1, 7, 2, 6}, options);
  const at::Tensor v = at::randn({1, 7, 2, 6}, options);
  const at::Tensor out = attention(q, k, v, {0, 0, 1, 1});
  const at::Tensor score = at::mm(q[0].select(1, 3), k[0].select(1, 1).t()) / std::sqrt(6.0);
  const at::Tensor expected = at::mm(at::softmax(score, -1), v[0].select(1, 1));
  EXPECT_LT(difference(out[0].select(1, 3), expected), 1e-12);
}

TEST(PixelDit, NoScoreIsLargerThanItSays) {
  PixelDitConfig config = small_config();
  TensorMap weights = PixelDit::initial_weights(config, 1);
  weights["blocks.0.attn.norm_q.weight"] = at::randn({config.head_dim}) * 3;
  weights["blocks.0.attn.norm_k.weight"] = at::randn({config.head_dim}) * 2;
  const PixelDit model(config, weights);
  const RopeTable rope = model.rope({0, 30}, 6);
  const at::Tensor h = at::randn({1, 30, config.width}) * 10;
  const at::Tensor scores =
      at::einsum("bqhd,bkhd->bhqk", {model.block(0).query(h, rope), model.block(0).key(h, rope)}) /
      std::sqrt(static_cast<double>(config.head_dim));
  EXPECT_LE(scores.abs().max().item<double>(), model.most_score(0) * 1.00001);
  EXPECT_GT(scores.abs().max().item<double>(), model.most_score(0) / 20);
}

TEST(PixelDit, MisuseNamesWhatIsWrong) {
  const PixelDitConfig config = small_config();
  TensorMap weights = PixelDit::initial_weights(config, 1);
  TensorMap missing = weights;
  missing.erase("blocks.1.attn.to_k.bias");
  EXPECT_EQ(misuse_of([&] { PixelDit(config, missing); }),
            "tensor blocks.1.attn.to_k.bias is missing: expected shape [24]");
  TensorMap wrong = weights;
  wrong["x_embedder.weight"] = at::zeros({24, 31});
  EXPECT_EQ(misuse_of([&] { PixelDit(config, wrong); }),
            "tensor x_embedder.weight has shape [24, 31]: expected [24, 32]");
  TensorMap extra = weights;
  extra["blocks.2.scale_shift_table"] = at::zeros({6, 24});
  EXPECT_THAT(misuse_of([&] { PixelDit(config, extra); }), HasSubstr("blocks.2.scale_shift_table"));
  PixelDitConfig odd = config;
  odd.head_dim = 6;
  EXPECT_THAT(misuse_of([&] { check(odd); }), HasSubstr("head_dim = 6: expected a multiple of 4"));
  odd = config;
  odd.layers = 0;
  EXPECT_EQ(misuse_of([&] { check(odd); }), "layers = 0: expected at least 1");
}

}  // namespace
}  // namespace dit
