#include <gtest/gtest.h>

#include "small_model.hpp"

namespace dit {
namespace {

TEST(EmbeddedModel, IsLoadedWhenNoFolderIsNamed) {
  const LoadedModel model = load_model("");
  EXPECT_EQ(model.origin, "embedded");
  EXPECT_EQ(to_json(model.config), to_json(small_model_config()));
  const TensorMap expected = small_model_weights(at::kBFloat16);
  ASSERT_EQ(model.weights.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    EXPECT_TRUE(at::equal(model.weights.at(name), tensor.to(at::kFloat))) << name;
  }
}

}  // namespace
}  // namespace dit
