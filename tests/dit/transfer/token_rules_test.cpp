// Rules for text or for image tokens: what each of them carries, in whole transfers, wherever blocks are
// coded.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "exchange/exchange.hpp"
#include "exchange/local/local_ranks.hpp"
#include "host_launcher.hpp"
#include "transfer/coded_transfer.hpp"
#include "transfer/device/device_coder.hpp"

namespace dit {
namespace {

constexpr int kLayers = 2, kSteps = 5;
constexpr AttentionTensor kTensors[] = {AttentionTensor::query, AttentionTensor::key, AttentionTensor::value,
                                        AttentionTensor::output};

WirePolicy policy_of(const char* of_text, const char* of_image) {
  WirePolicy policy;
  for (const auto& [tokens, mode] :
       {std::pair(TokenPart::text, of_text), std::pair(TokenPart::image, of_image)}) {
    WireRule rule;
    rule.tokens = tokens;
    rule.mode = parse_wire_mode(mode);
    policy.rules.push_back(rule);
  }
  return policy;
}

std::vector<float> numbers(std::int64_t count, int rank, int step) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::sin(0.7F * static_cast<float>(i) + static_cast<float>(rank + 10 * step));
  return values;
}

/// Of one tensor, under a policy.
class Way {
 public:
  Way(ExchangeContext& context, const UlyssesLayout& layout, AttentionTensor tensor, const WirePolicy& policy,
      bool on_device)
      : run_(policy, kLayers, kSteps, context, context, layout, 1, WireElement::fp32), rank_(context.rank()) {
    std::unique_ptr<BlockCoder> coder;
    if (on_device) {
      coder = std::make_unique<DeviceCoder>(run_.blocks(tensor), WireElement::fp32, run_.sample_rows(tensor),
                                            TransferMemory::of(DIT_MEMORY_HOST), launcher_);
    }
    const TransferPart part{tensor, 0, 1, context.open_channel()};
    transfer_ = std::make_unique<CodedTransfer>(context, run_, part, 1, DIT_MEMORY_HOST, std::move(coder));
  }

  std::vector<float> arrived(int layer, int step) {
    std::vector<float> source = numbers(transfer_->source_shape().elements(), rank_, step);
    std::vector<float> target(static_cast<std::size_t>(transfer_->target_shape().elements()));
    transfer_->pack({std::as_bytes(std::span(source)), transfer_->source_shape(),
                     dense_strides(transfer_->source_shape())},
                    {layer, step, 0}, {}, nullptr);
    transfer_
        ->start({std::as_writable_bytes(std::span(target)), transfer_->target_shape(),
                 dense_strides(transfer_->target_shape())},
                {})
        .wait();
    transfer_->finish();
    return target;
  }
  [[nodiscard]] const CodedTransfer& transfer() const { return *transfer_; }

 private:
  HostLauncher launcher_;
  WireRun run_;
  int rank_;
  std::unique_ptr<CodedTransfer> transfer_;
};

/// Of each element of a rank's target: whether it is of a text token.
std::vector<bool> text_elements(const UlyssesLayout& layout, AttentionTensor tensor, int rank,
                                const TensorShape& shape) {
  std::vector<bool> text;
  const std::int64_t texts = layout.text_tokens(rank).size(), images = layout.image_tokens(rank).size();
  const bool text_first = layout.shape().order == JointOrder::text_image;
  const Range held = tensor == AttentionTensor::query ? layout.query_tokens(rank) : Range{0, layout.tokens()};
  for (std::int64_t row = 0; row < shape.batch * shape.rows; ++row) {
    const std::int64_t at = row % shape.rows;
    const std::int64_t all_texts = layout.shape().text_tokens, all_images = layout.shape().image_tokens;
    bool is_text = text_first ? at + held.begin < all_texts : at + held.begin >= all_images;
    if (tensor == AttentionTensor::output) is_text = text_first ? at < texts : at >= images;
    text.insert(text.end(), static_cast<std::size_t>(shape.heads * shape.head_dim), is_text);
  }
  return text;
}

LocalGroupOptions far_ranks(int ranks) {
  LocalGroupOptions group;
  group.ranks = ranks;
  group.ranks_per_node = 1;
  return group;
}

struct Difference {
  double text = 0, image = 0;
};

Difference greatest(const std::vector<float>& a, const std::vector<float>& b, const std::vector<bool>& text) {
  Difference found;
  for (std::size_t i = 0; i < a.size(); ++i) {
    double& most = text[i] ? found.text : found.image;
    most = std::max(most, std::abs(static_cast<double>(a[i]) - b[i]));
  }
  return found;
}

class TokenRules : public ::testing::TestWithParam<std::tuple<JointOrder, TextPlacement>> {};

TEST_P(TokenRules, EachCarriesItsTokens) {
  const auto [order, placement] = GetParam();
  const AttentionShape shape{2, 5, 23, 6, 3, 8, order, placement};
  for (const int ranks : {2, 3, 7}) {
    const UlyssesLayout layout(shape, ranks);
    run_local_ranks(far_ranks(ranks), [&](ExchangeContext& context) {
      for (const AttentionTensor tensor : kTensors) {
        Way exact(context, layout, tensor, {}, false);
        for (const bool on_text : {false, true}) {
          const WirePolicy policy = on_text ? policy_of("residual int4", "full") : policy_of("full", "fp8");
          Way host(context, layout, tensor, policy, false), device(context, layout, tensor, policy, true);
          bool lossy = false;
          for (int step = 0; step < kSteps; ++step) {
            const std::string where = std::string(to_string(tensor)) + ", step " + std::to_string(step) +
                                      ", rank " + std::to_string(context.rank()) + " of " +
                                      std::to_string(ranks);
            const std::vector<float> right = exact.arrived(1, step), found = host.arrived(1, step);
            ASSERT_EQ(device.arrived(1, step), found) << where;
            const Difference away = greatest(
                found, right, text_elements(layout, tensor, context.rank(), host.transfer().target_shape()));
            ASSERT_EQ(on_text ? away.image : away.text, 0) << where;
            lossy = lossy || away.image + away.text > 1e-3;
          }
          // Replicated text goes nowhere but with outputs.
          const bool goes =
              !on_text || placement == TextPlacement::split || tensor == AttentionTensor::output;
          ASSERT_TRUE(lossy || !goes || ranks > 6) << to_string(tensor);
        }
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, TokenRules,
                         ::testing::Combine(::testing::Values(JointOrder::text_image, JointOrder::image_text),
                                            ::testing::Values(TextPlacement::split,
                                                              TextPlacement::replicated)));

TEST(TokenRulesBytes, AreThoseOfBothParts) {
  const UlyssesLayout layout({1, 8, 24, 4, 4, 16}, 2);
  run_local_ranks(far_ranks(2), [&](ExchangeContext& context) {
    const auto bytes = [&](const WirePolicy& policy, bool on_device = false) {
      return Way(context, layout, AttentionTensor::key, policy, on_device).transfer().slow_bytes(0);
    };
    // 4 text and 12 image tokens with two heads of 16 in fp32 each; bf16 is half of it.
    EXPECT_EQ(bytes({}), 16U * 2 * 16 * 4);
    EXPECT_EQ(bytes(policy_of("full", "bf16")), (4U * 4 + 12 * 2) * 2 * 16);
    EXPECT_EQ(bytes(policy_of("bf16", "full")), (4U * 2 + 12 * 4) * 2 * 16);
    EXPECT_EQ(bytes(policy_of("bf16", "full"), true), (4U * 2 + 12 * 4) * 2 * 16);
  });
}

}  // namespace
}  // namespace dit
