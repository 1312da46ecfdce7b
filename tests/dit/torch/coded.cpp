// Exchanges with a policy: the bits of direct transfers with the same wire, and nothing of the image before.
#include <gmock/gmock.h>

#include "operators.hpp"
#include "ranks.hpp"

namespace dit::test {
namespace {

constexpr int kSteps = 4;

dit_torch_attention coded_attention(const char* policy) {
  dit_torch_attention attention = attention_of(1, 3, 21, 4, 4, 16);
  attention.policy = policy;
  attention.layers = 2;
  attention.steps = kSteps;
  return attention;
}

/// V of a step and layer; it changes from step to step.
at::Tensor value_at(const Rank& own, int step, int layer) {
  return numbers(own.attention, false, 1.0 + 0.05 * step + 7 * layer);
}

/// All steps through the operators.
std::vector<at::Tensor> by_operators(const Rank& own) {
  std::vector<at::Tensor> results;
  for (int step = 0; step < kSteps; ++step) {
    require_ok(dit_torch_begin_step(own.exchange.c_str(), step, 0));
    for (int layer = 0; layer < 2; ++layer) {
      const at::Tensor x = own.in_sequence(value_at(own, step, layer));
      const auto [query, key, value] = scatter_qkv(x, x, x, own.exchange, layer);
      for (const at::Tensor& result : {query, key, value}) results.push_back(result);
      results.push_back(gather(query, own.exchange, layer));
    }
  }
  return results;
}

/// One tensor's way by dit.h.
class Direct {
 public:
  Direct(const Rank& own, dit_layout* layout, dit_wire* wire, int what) {
    const dit_transfer_options options{sizeof options, what, 0, 1, 4, nullptr, wire, DIT_MEMORY_HOST};
    require_ok(dit_transfer_create(own.session, layout, &options, &transfer_));
    std::vector<std::int64_t> source(4), target(4);
    require_ok(dit_transfer_shapes(transfer_, source.data(), target.data()));
    sizes_ = target;
  }
  ~Direct() { require_ok(dit_transfer_free(&transfer_)); }
  void start(const at::Tensor& x, int layer, int step) {
    source_ = x.contiguous();
    target_ = at::empty(sizes_, at::kFloat);
    dit_transfer_call call{};
    call.struct_size = sizeof call;
    call.source = {source_.data_ptr(), source_.nbytes(), 0, 0, 0};
    call.target = {target_.data_ptr(), target_.nbytes(), 0, 0, 0};
    call.layer = layer;
    call.step = step;
    require_ok(dit_transfer_start(transfer_, &call));
  }
  at::Tensor wait() {
    require_ok(dit_transfer_wait(transfer_));
    return target_;
  }

 private:
  dit_transfer* transfer_ = nullptr;
  std::vector<std::int64_t> sizes_;
  at::Tensor source_, target_;
};

std::vector<at::Tensor> by_transfers(const Rank& own) {
  const dit_torch_attention& of = own.attention;
  const dit_attention_shape shape{sizeof shape, of.batch,    of.text_tokens, of.image_tokens,
                                  of.heads,     of.kv_heads, of.head_dim,    of.flags};
  dit_layout* layout = nullptr;
  require_ok(dit_layout_create(&shape, own.ranks, &layout));
  const dit_wire_options options{sizeof options,   of.policy, of.layers, of.steps, 1, 1,
                                 DIT_ELEMENT_FP32, nullptr};
  dit_wire* wire = nullptr;
  require_ok(dit_wire_create(own.session, layout, &options, &wire));
  std::vector<at::Tensor> results;
  {
    Direct q(own, layout, wire, DIT_SCATTER_QUERY), k(own, layout, wire, DIT_SCATTER_KEY);
    Direct v(own, layout, wire, DIT_SCATTER_VALUE), o(own, layout, wire, DIT_GATHER_OUTPUT);
    for (int step = 0; step < kSteps; ++step)
      for (int layer = 0; layer < 2; ++layer) {
        const at::Tensor x = own.in_sequence(value_at(own, step, layer));
        for (Direct* transfer : {&v, &q, &k}) transfer->start(x, layer, step);
        for (Direct* transfer : {&q, &k, &v}) results.push_back(transfer->wait());
        o.start(results[results.size() - 3], layer, step);
        results.push_back(o.wait());
      }
  }
  require_ok(dit_wire_free(&wire));
  require_ok(dit_layout_free(&layout));
  return results;
}

void expect_same(const std::vector<at::Tensor>& one, const std::vector<at::Tensor>& other) {
  ASSERT_EQ(one.size(), other.size());
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(same_bits(one[i], other[i])) << "result " << i;
}

class Policies : public testing::TestWithParam<const char*> {};

TEST_P(Policies, GiveTheBitsOfTransfers) {
  on_ranks(3, coded_attention(GetParam()), [](Rank& own) {
    const std::vector<at::Tensor> results = by_operators(own);
    expect_same(results, by_transfers(own));
    const at::Tensor exact = own.in_heads(value_at(own, kSteps - 1, 1), DIT_SCATTER_QUERY);
    EXPECT_FALSE(same_bits(results[results.size() - 4], exact)) << "the policy sends everything in full";
    EXPECT_TRUE(at::allclose(results[results.size() - 4], exact, 0, 0.5));
  });
}

TEST_P(Policies, AnImageDoesNotDependOnTheOneBefore) {
  on_ranks(3, coded_attention(GetParam()), [](Rank& own) {
    const std::vector<at::Tensor> first = by_operators(own);
    require_ok(dit_torch_reset(own.exchange.c_str()));
    expect_same(by_operators(own), first);
  });
}

std::uint64_t wire_bytes(const Rank& own, const dit_torch_attention& attention) {
  std::uint64_t bytes = ~std::uint64_t{0};
  require_ok(dit_torch_wire_bytes(own.group.c_str(), &attention, &bytes));
  return bytes;
}

TEST_P(Policies, SayBeforehandWhatTheyKeep) {
  on_ranks(3, coded_attention(GetParam()), [](Rank& own) {
    const std::uint64_t bytes = wire_bytes(own, own.attention);
    std::vector<char> text(1 << 16);
    require_ok(dit_torch_report(own.exchange.c_str(), text.data(), text.size(), nullptr));
    const std::string words = "\"wire_bytes\":" + std::to_string(bytes) + ",";
    EXPECT_THAT(std::string(text.data()), testing::HasSubstr(words));
    EXPECT_EQ(bytes > 0, std::string_view(own.attention.policy) != "fp8");  // which remembers nothing
  });
}

TEST(KeptBytes, GrowWithLateBlocks) {
  on_ranks(3, coded_attention("displaced"), [](Rank& own) {
    dit_torch_attention exact = own.attention;
    exact.policy = nullptr;
    EXPECT_EQ(wire_bytes(own, exact), 0U);
    dit_torch_attention twice = own.attention;
    twice.branches = 2;
    EXPECT_GT(wire_bytes(own, own.attention), 0U);
    EXPECT_EQ(wire_bytes(own, twice), 2 * wire_bytes(own, own.attention));
  });
}

TEST(KeptBytes, WrongArgumentsAreNamed) {
  on_ranks(2, coded_attention("fp8"), [](Rank& own) {
    std::uint64_t bytes = 0;
    EXPECT_EQ(dit_torch_wire_bytes("no group", &own.attention, &bytes), DIT_ERROR_ARGUMENT);
    EXPECT_THAT(dit_torch_last_error(), testing::HasSubstr("no group"));
    EXPECT_EQ(dit_torch_wire_bytes(own.group.c_str(), &own.attention, nullptr), DIT_ERROR_ARGUMENT);
    EXPECT_THAT(dit_torch_last_error(), testing::HasSubstr("bytes"));
    dit_torch_attention wrong = own.attention;
    wrong.policy = "fastest";
    EXPECT_EQ(dit_torch_wire_bytes(own.group.c_str(), &wrong, &bytes), DIT_ERROR_ARGUMENT);
    EXPECT_THAT(dit_torch_last_error(), testing::HasSubstr("fastest"));
  });
}

INSTANTIATE_TEST_SUITE_P(Presets, Policies,
                         testing::Values("fp8", "balanced", "v-major:warmup=1,refresh=3,ratio=linear"));

}  // namespace
}  // namespace dit::test
