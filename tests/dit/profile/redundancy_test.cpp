#include "profile/redundancy.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <stdexcept>

#include "profile/heat_maps.hpp"
#include "profile/policy_search.hpp"

namespace dit {
namespace {

constexpr AttentionTensor kTensors[] = {AttentionTensor::query, AttentionTensor::key, AttentionTensor::value,
                                        AttentionTensor::output};

// Tensors that turn slowly; values twice as fast.
RedundancyProfile turning(int layers, int steps, float momentum = 0.5F) {
  RedundancyProfile profile(layers, steps, momentum);
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> a(2048), b(2048);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = normal(random);
    b[i] = normal(random);
  }
  for (int step = 0; step < steps; ++step) {
    for (int layer = 0; layer < layers; ++layer) {
      for (const AttentionTensor tensor : kTensors) {
        const float speed = tensor == AttentionTensor::value ? 0.1F : 0.05F;
        std::vector<float> now(a.size());
        for (std::size_t i = 0; i < a.size(); ++i) {
          now[i] = std::cos(speed * static_cast<float>(step)) * a[i] +
                   std::sin(speed * static_cast<float>(step)) * b[i];
        }
        profile.add(tensor, layer, step, now, 32);
      }
    }
  }
  return profile;
}

TEST(Redundancy, DistancesOfTurningTensors) {
  const RedundancyProfile profile = turning(2, 6);
  const RedundancyCell& query = profile.cell(AttentionTensor::query, 1, 4);
  EXPECT_NEAR(query.change, 0.05, 0.003);
  EXPECT_NEAR(query.cosine, std::cos(0.05), 0.001);
  EXPECT_NEAR(query.expected, 0.025, 0.003);  // half of the way is foreseen
  EXPECT_NEAR(profile.cell(AttentionTensor::value, 0, 4).change, 0.1, 0.006);
  EXPECT_LT(query.token_low, query.token_median);
  EXPECT_LT(query.token_median, query.token_high);
  EXPECT_NEAR(query.token_median, 0.05, 0.01);
  EXPECT_EQ(profile.cell(AttentionTensor::query, 0, 0).change, 1);
}

TEST(Redundancy, ErrorsGrowWithFewerBits) {
  const RedundancyProfile profile = turning(1, 8);
  const std::vector<double>& errors = profile.cell(AttentionTensor::key, 0, 7).errors;
  ASSERT_EQ(errors.size(), profiled_modes().size());
  EXPECT_LT(errors[0], 0.003);          // bf16
  EXPECT_NEAR(errors[1], 0.025, 0.01);  // fp8
  for (std::size_t residual = 3; residual < 6; ++residual) EXPECT_GT(errors[residual], errors[residual - 1]);
  EXPECT_LT(errors[4], 0.02);  // 2 bits of what is left of the change
  EXPECT_EQ(errors[6], profile.cell(AttentionTensor::key, 0, 7).expected);
}

TEST(Redundancy, RefusesOtherSizes) {
  RedundancyProfile profile(1, 2, 0);
  const std::vector<float> values(64);
  EXPECT_THROW(profile.add(AttentionTensor::key, 0, 0, values, 33), std::invalid_argument);
  EXPECT_THROW(profile.add(AttentionTensor::key, 1, 0, values, 32), std::out_of_range);
  EXPECT_THROW(profile.add(AttentionTensor::key, 0, 2, values, 32), std::out_of_range);
  profile.add(AttentionTensor::key, 0, 0, values, 32);
  EXPECT_THROW(profile.add(AttentionTensor::key, 0, 1, std::span(values).first(32), 32),
               std::invalid_argument);
  EXPECT_THROW(RedundancyProfile(0, 2, 0), std::invalid_argument);
  EXPECT_THROW(RedundancyProfile(1, 2, 2), std::invalid_argument);
}

TEST(PolicySearch, BytesForNoise) {
  const RedundancyProfile profile = turning(2, 12);
  double bytes = 1;
  double noise = 0;
  for (const double price : {1e-12, 1e-7, 1e-5, 1e-3, 1.0}) {
    const FoundPolicy found = policy_for_price(profile, price);
    EXPECT_LE(found.bytes, bytes);
    EXPECT_GE(found.noise, noise);
    bytes = found.bytes;
    noise = found.noise;
  }
  for (const double wanted : {0.2, 0.3, 0.4}) {
    const FoundPolicy found = policy_for_bytes(profile, wanted);
    EXPECT_LE(found.bytes, wanted);
    EXPECT_GT(found.bytes, wanted * 0.7);
    EXPECT_LE(policy_for_noise(profile, found.noise).bytes, found.bytes + 1e-9);
  }
  EXPECT_THROW(static_cast<void>(policy_for_bytes(profile, 0.001)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(policy_for_noise(profile, 1e-30)), std::invalid_argument);
}

// The rules say what was chosen: every block has a mode, and what was counted is what they take.
TEST(PolicySearch, RulesCoverAll) {
  const RedundancyProfile profile = turning(3, 12);
  const FoundPolicy found = policy_for_bytes(profile, 0.25);
  const WirePlan plan(found.policy, {3, 12, {"node", "world"}, 1});
  double bits = 0;
  for (int step = 0; step < 12; ++step) {
    for (int layer = 0; layer < 3; ++layer) {
      for (const AttentionTensor tensor : kTensors) {
        const WireMode mode = plan.mode(tensor, 1, layer, step, 0);
        EXPECT_FALSE(mode.is_exact());
        EXPECT_FALSE(step > 0 && mode.skip && plan.mode(tensor, 1, layer, step - 1, 0).skip);
        bits += bits_of(mode, WireElement::fp32);
      }
    }
  }
  EXPECT_NEAR(bits / (12 * 3 * 4) / 16, found.bytes, 1e-9);
  EXPECT_EQ(policy_for_bytes(profile, 0.25).policy, found.policy);
}

TEST(HeatMaps, AMapForEachTensorAndQuantity) {
  const Image image = heat_maps(turning(2, 5));
  EXPECT_GT(image.width, 4 * 5);
  EXPECT_GT(image.height, static_cast<std::int64_t>(heat_map_rows().size()) * 2);
  EXPECT_EQ(image.rgb.size(), static_cast<std::size_t>(image.width * image.height * 3));
}

}  // namespace
}  // namespace dit
