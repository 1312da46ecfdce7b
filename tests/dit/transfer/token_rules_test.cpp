// Rules for text or for image tokens: what each of them carries, in whole transfers, wherever blocks are
// coded.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
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

/// How one tensor's transfers are made.
struct How {
  int layers = kLayers, steps = kSteps, groups = 1, group = 0, branches = 1;
  bool on_device = false;
};

/// Of one tensor, under a policy.
class Way {
 public:
  Way(ExchangeContext& context, const UlyssesLayout& layout, AttentionTensor tensor, const WirePolicy& policy,
      const How& how)
      : run_(policy, how.layers, how.steps, context, context, layout, how.groups, WireElement::fp32) {
    std::unique_ptr<BlockCoder> coder;
    if (how.on_device) {
      coder = std::make_unique<DeviceCoder>(run_.blocks(tensor, how.group), WireElement::fp32,
                                            run_.sample_rows(tensor), TransferMemory::of(DIT_MEMORY_HOST),
                                            launcher_);
    }
    const TransferPart part{tensor, how.group, how.groups, context.open_channel()};
    transfer_ =
        std::make_unique<CodedTransfer>(context, run_, part, how.branches, DIT_MEMORY_HOST, std::move(coder));
  }

  std::vector<float> arrived(const std::vector<float>& source, const TransferPlace& place) {
    std::vector<float> target(static_cast<std::size_t>(transfer_->target_shape().elements()));
    transfer_->pack({std::as_bytes(std::span(source)), transfer_->source_shape(),
                     dense_strides(transfer_->source_shape())},
                    place, {}, nullptr);
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
        Way exact(context, layout, tensor, {}, {});
        How by_kernels;
        by_kernels.on_device = true;
        for (const bool on_text : {false, true}) {
          const WirePolicy policy = on_text ? policy_of("residual int4", "full") : policy_of("full", "fp8");
          Way host(context, layout, tensor, policy, {}), device(context, layout, tensor, policy, by_kernels);
          bool lossy = false;
          for (int step = 0; step < kSteps; ++step) {
            const std::string where = std::string(to_string(tensor)) + ", step " + std::to_string(step) +
                                      ", rank " + std::to_string(context.rank()) + " of " +
                                      std::to_string(ranks);
            const std::vector<float> source =
                numbers(exact.transfer().source_shape().elements(), context.rank(), step);
            const TransferPlace place{1, step, 0};
            const std::vector<float> right = exact.arrived(source, place),
                                     found = host.arrived(source, place);
            ASSERT_EQ(device.arrived(source, place), found) << where;
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
      How how;
      how.on_device = on_device;
      return Way(context, layout, AttentionTensor::key, policy, how).transfer().slow_bytes(0);
    };
    // 4 text and 12 image tokens with two heads of 16 in fp32 each; bf16 is half of it.
    EXPECT_EQ(bytes({}), 16U * 2 * 16 * 4);
    EXPECT_EQ(bytes(policy_of("full", "bf16")), (4U * 4 + 12 * 2) * 2 * 16);
    EXPECT_EQ(bytes(policy_of("bf16", "full")), (4U * 2 + 12 * 4) * 2 * 16);
    EXPECT_EQ(bytes(policy_of("bf16", "full"), true), (4U * 2 + 12 * 4) * 2 * 16);
  });
}

/// A policy, and shapes of all kinds.
struct Drawn {
  explicit Drawn(unsigned seed) : random(seed) {
    const int tokens[] = {0, 1, 2, 5, 9, 17};
    ranks = 1 + below(6);
    ranks_per_node = 1 + below(2);
    shape.batch = 1 + below(3);
    shape.text_tokens = tokens[below(6)];
    shape.image_tokens = tokens[below(6)];
    shape.kv_heads = 1 + below(3);
    shape.heads = shape.kv_heads * (1 + below(2));
    shape.head_dim = 1 + below(9);
    shape.order = below(2) == 0 ? JointOrder::text_image : JointOrder::image_text;
    shape.text = below(2) == 0 ? TextPlacement::split : TextPlacement::replicated;
    how.layers = 1 + below(2);
    how.steps = 2 + below(4);
    how.groups = 1 + below(2);
    how.branches = 1 + below(2);
    policy.most_age = below(3);
    policy.momentum = below(2) == 0 ? 0.5F : 0;
    if (below(5) == 0) policy.guard = 0.05;
    for (int rules = 1 + below(5); rules > 0; --rules) policy.rules.push_back(rule());
  }
  int below(int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); }
  WireRule rule() {
    const char* const modes[] = {"skip",          "late bf16", "late residual int4",     "residual int2",
                                 "rows 0.5 int4", "full",      "rows 0.3 residual int8", "fp8"};
    WireRule drawn;
    drawn.mode = parse_wire_mode(modes[below(8)]);
    if (below(3) == 0) drawn.tensors = {kTensors[below(4)]};
    drawn.every = 1 + below(3);
    if (below(4) == 0) drawn.branch = below(2);
    drawn.tokens = static_cast<TokenPart>(below(3));
    return drawn;
  }
  /// As for a joint sequence of that part alone.
  [[nodiscard]] WirePolicy only(TokenPart part) const {
    WirePolicy of_part = policy;
    of_part.rules.clear();
    for (WireRule each : policy.rules) {
      if (each.tokens != part && each.tokens != TokenPart::all) continue;
      each.tokens = TokenPart::all;
      of_part.rules.push_back(each);
    }
    return of_part;
  }

  std::mt19937 random;
  AttentionShape shape;
  int ranks, ranks_per_node;
  How how;
  WirePolicy policy;
};

/// Rows [first, first + count) of each sample.
std::vector<float> rows_of(const std::vector<float>& values, const TensorShape& shape, std::int64_t first,
                           std::int64_t count) {
  std::vector<float> rows;
  const auto row = static_cast<std::ptrdiff_t>(shape.row_elements());
  for (std::int64_t sample = 0; sample < shape.batch; ++sample) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(sample * shape.rows + first) * row;
    rows.insert(rows.end(), begin, begin + static_cast<std::ptrdiff_t>(count) * row);
  }
  return rows;
}

/// Both parts of a joint tensor and where they lie.
struct Joint {
  const TensorShape& shape;
  std::int64_t texts;
  bool text_first;
  [[nodiscard]] std::vector<float> part(const std::vector<float>& values, bool text) const {
    const std::int64_t count = text ? texts : shape.rows - texts;
    return rows_of(values, shape, text == text_first ? 0 : shape.rows - count, count);
  }
};

TEST(TokenRulesRandom, EachPartGoesAsItWouldAlone) {
  for (unsigned seed = 1; seed <= 120; ++seed) {
    const Drawn drawn(seed);
    const UlyssesLayout layout(drawn.shape, drawn.ranks);
    AttentionShape text_shape = drawn.shape, image_shape = drawn.shape;
    text_shape.image_tokens = image_shape.text_tokens = 0;
    const UlyssesLayout text_layout(text_shape, drawn.ranks), image_layout(image_shape, drawn.ranks);
    LocalGroupOptions group;
    group.ranks = drawn.ranks;
    group.ranks_per_node = drawn.ranks_per_node;
    run_local_ranks(group, [&](ExchangeContext& context) {
      for (const AttentionTensor tensor : kTensors) {
        How how = drawn.how, by_kernels = drawn.how;
        by_kernels.on_device = true;
        Way host(context, layout, tensor, drawn.policy, how),
            device(context, layout, tensor, drawn.policy, by_kernels),
            text(context, text_layout, tensor, drawn.only(TokenPart::text), how),
            image(context, image_layout, tensor, drawn.only(TokenPart::image), how);
        const bool output = tensor == AttentionTensor::output;
        const bool text_first = drawn.shape.order == JointOrder::text_image;
        const std::int64_t own = layout.text_tokens(context.rank()).size(), all = drawn.shape.text_tokens;
        const Joint from{host.transfer().source_shape(), output ? all : own, text_first};
        const Joint to{host.transfer().target_shape(), output ? own : all, text_first};
        // A guard looks at both parts together; ranks that share a head split queries of the joint sequence.
        const bool alone =
            drawn.policy.guard == 0 && (drawn.ranks <= drawn.shape.heads || !has_query_heads(tensor));
        for (int step = 0; step < how.steps; ++step) {
          for (int at = 0; at < how.layers * how.branches; ++at) {
            const TransferPlace place{at % how.layers, step, at / how.layers};
            const std::vector<float> source = numbers(from.shape.elements(), context.rank(), step + 7 * at);
            const std::vector<float> found = host.arrived(source, place);
            ASSERT_EQ(device.arrived(source, place), found) << "seed " << seed << ", " << to_string(tensor);
            if (!alone) continue;
            ASSERT_EQ(text.arrived(from.part(source, true), place), to.part(found, true)) << "seed " << seed;
            ASSERT_EQ(image.arrived(from.part(source, false), place), to.part(found, false))
                << "seed " << seed;
          }
        }
      }
    });
  }
}

}  // namespace
}  // namespace dit
