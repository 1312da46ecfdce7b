#include "flat_weights.hpp"

#include <gtest/gtest.h>

#include "training_fixture.hpp"

namespace dit::gray_scott {
namespace {

TEST(FlatWeights, WeightsComeBackByName) {
  const PixelDitConfig network = small_network(3);
  const FlatLayout layout(network);
  const TensorMap weights = PixelDit::initial_weights(network, 2);
  const at::Tensor flat = layout.join(weights);
  EXPECT_EQ(flat.numel(), layout.elements());
  const TensorMap back = layout.split(flat);
  ASSERT_EQ(back.size(), weights.size());
  for (const auto& [name, tensor] : weights) {
    EXPECT_TRUE(at::equal(back.at(name), tensor)) << name;
  }
}

TEST(FlatWeights, GradientsReachTheirPlace) {
  const PixelDitConfig network = small_network(3);
  const FlatLayout layout(network);
  const at::Tensor flat = layout.join(PixelDit::initial_weights(network, 2)).requires_grad_(true);
  layout.split(flat).at("x_embedder.bias").sum().backward();
  const TensorMap gradients = layout.split(flat.grad());
  EXPECT_EQ(gradients.at("x_embedder.bias").sum().item<double>(), 32.0);
  EXPECT_EQ(flat.grad().sum().item<double>(), 32.0);
}

}  // namespace
}  // namespace dit::gray_scott
