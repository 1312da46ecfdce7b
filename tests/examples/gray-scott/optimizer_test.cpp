#include "optimizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "training_fixture.hpp"
#include "weights/safetensors.hpp"

namespace dit::gray_scott {
namespace {

/// Steps towards 3 in every element.
void descend(TrainedWeights& weights, int steps) {
  for (int i = 0; i < steps; ++i) {
    (weights.flat() - 3.0).square().sum().backward();
    weights.step(0.05, 1.0);
  }
}

double distance(const at::Tensor& flat) {
  return (flat - 3.0).abs().max().item<double>();
}

TEST(TrainedWeights, WalkDownTheGradient) {
  TrainedWeights weights(at::zeros({4}), 0.9);
  descend(weights, 10);
  EXPECT_LT(distance(weights.flat()), 2.6);
  EXPECT_FALSE(weights.flat().grad().defined()) << "the next gradient must not be added to this one";
}

TEST(TrainedWeights, AverageFollowsMoreSlowly) {
  TrainedWeights weights(at::zeros({4}), 0.5);
  const at::Tensor first = weights.average().clone();
  descend(weights, 1);
  // (1 + 1) / (10 + 1) is less than 0.5: the first average is mostly the first weights.
  const at::Tensor expected = first + (weights.flat() - first) * (1.0 - 2.0 / 11.0);
  EXPECT_LT((weights.average() - expected).abs().max().item<double>(), 1e-6);
  descend(weights, 20);
  EXPECT_GT(distance(weights.average()), distance(weights.flat()));
}

TEST(TrainedWeights, GradientIsCut) {
  TrainedWeights cut(at::zeros({4}), 0.9);
  TrainedWeights small(at::zeros({4}), 0.9);
  // A first step is as long whatever the gradient: its norm shows in the second.
  for (const double size : {1e6, 0.1}) {
    (cut.flat() * size).sum().backward();
    cut.step(0.05, 1.0);
    small.flat().mutable_grad() = at::full({4}, std::min(size, 0.5));  // norm 1 at most
    small.step(0.05, 1.0);
  }
  EXPECT_LT((cut.flat() - small.flat()).abs().max().item<double>(), 1e-6);
}

TEST(TrainedWeights, ContinueFromAFileAsIfNothingHadBeen) {
  const TestFolder folder;
  const auto file = folder.path() / "state.safetensors";
  TrainedWeights whole(at::zeros({4}), 0.9);
  descend(whole, 6);
  TrainedWeights first(at::zeros({4}), 0.9);
  descend(first, 3);
  first.save(file, {3, 0.5});
  TrainedWeights second(at::ones({4}), 0.9);
  const SchedulePoint point = second.load(file);
  EXPECT_EQ(point.step, 3);
  EXPECT_EQ(point.progress, 0.5);
  descend(second, 3);
  EXPECT_TRUE(at::equal(whole.flat(), second.flat()));
  EXPECT_TRUE(at::equal(whole.average(), second.average()));
}

TEST(TrainedWeights, FilesOfOthersAreRefused) {
  const TestFolder folder;
  const auto file = folder.path() / "state.safetensors";
  TrainedWeights(at::zeros({4}), 0.9).save(file, {});
  TrainedWeights larger(at::zeros({5}), 0.9);
  EXPECT_EQ(message_of<std::runtime_error>([&] { (void)larger.load(file); }),
            file.string() + ": tensor weights is not that of this network's training state");
  write_safetensors(file, {{"other", at::zeros({5})}}, {});
  EXPECT_EQ(message_of<std::runtime_error>([&] { (void)larger.load(file); }),
            file.string() + ": tensor weights is not that of this network's training state");
}

}  // namespace
}  // namespace dit::gray_scott
