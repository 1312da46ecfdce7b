// Every number arrives where the layout wants it, whatever the shape, the strides and the order of calls.
#include <nlohmann/json.hpp>

#include "operators.hpp"
#include "ranks.hpp"

namespace dit::test {
namespace {

struct Case {
  int ranks;
  dit_torch_attention attention;
};

std::vector<Case> cases() {
  return {{1, attention_of(2, 3, 5, 3, 3, 4)},
          {2, attention_of(1, 4, 8, 4, 4, 8)},
          {3, attention_of(2, 3, 17, 12, 12, 4)},
          {3, attention_of(2, 3, 11, 5, 5, 4, DIT_LAYOUT_TEXT_REPLICATED)},
          {5, attention_of(1, 0, 31, 38, 19, 2)},
          {5, attention_of(2, 5, 9, 3, 1, 2)},  // ranks share heads, and their keys
          {4, attention_of(1, 4, 9, 8, 8, 2, DIT_LAYOUT_IMAGE_FIRST | DIT_LAYOUT_TEXT_REPLICATED)}};
}

class Exchanges : public testing::TestWithParam<Case> {};

TEST_P(Exchanges, ScatterAndGatherEachTensor) {
  on_ranks(GetParam().ranks, GetParam().attention, [](Rank& own) {
    for (int what = DIT_SCATTER_QUERY; what <= DIT_SCATTER_VALUE; ++what) {
      const at::Tensor whole = numbers(own.attention, what == DIT_SCATTER_QUERY, what);
      EXPECT_TRUE(same_bits(exchange(own.in_sequence(whole), own.exchange, what), own.in_heads(whole, what)));
    }
    const at::Tensor whole = numbers(own.attention, true, 9);
    const at::Tensor heads = own.in_heads(whole, DIT_GATHER_OUTPUT).contiguous();
    EXPECT_TRUE(same_bits(gather(heads, own.exchange), own.in_sequence(whole)));
    EXPECT_TRUE(same_bits(exchange(heads, own.exchange, DIT_GATHER_OUTPUT), own.in_sequence(whole)));
  });
}

TEST_P(Exchanges, ScatterQkvEqualsThreeExchanges) {
  on_ranks(GetParam().ranks, GetParam().attention, [](Rank& own) {
    const at::Tensor q = numbers(own.attention, true, 1);
    const at::Tensor k = numbers(own.attention, false, 2);
    const at::Tensor v = numbers(own.attention, false, 3);
    const auto [query, key, value] =
        scatter_qkv(own.in_sequence(q), own.in_sequence(k), own.in_sequence(v), own.exchange);
    EXPECT_TRUE(same_bits(query, own.in_heads(q, DIT_SCATTER_QUERY)));
    EXPECT_TRUE(same_bits(key, own.in_heads(k, DIT_SCATTER_KEY)));
    EXPECT_TRUE(same_bits(value, own.in_heads(v, DIT_SCATTER_VALUE)));
  });
}

TEST_P(Exchanges, ValueMayStartFirstAndResultsStay) {
  on_ranks(GetParam().ranks, GetParam().attention, [](Rank& own) {
    std::vector<std::pair<at::Tensor, at::Tensor>> results;  // and what they must be
    for (int round = 0; round < 3; ++round) {
      const at::Tensor q = numbers(own.attention, true, round);
      const at::Tensor k = numbers(own.attention, false, round + 10);
      const at::Tensor v = numbers(own.attention, false, round + 20);
      const at::Tensor own_q = own.in_sequence(q), own_k = own.in_sequence(k), own_v = own.in_sequence(v);
      const at::Tensor of_v = start(own_v, own.exchange, DIT_SCATTER_VALUE);
      const at::Tensor of_q = start(own_q, own.exchange, DIT_SCATTER_QUERY, 0, {}, of_v);
      const at::Tensor of_k = start(own_k, own.exchange, DIT_SCATTER_KEY, 0, {}, of_q);
      EXPECT_EQ(of_k.numel(), 0);
      results.emplace_back(finish(of_v, own.exchange, DIT_SCATTER_VALUE, 0, of_k),
                           own.in_heads(v, DIT_SCATTER_VALUE));
      results.emplace_back(finish(of_q, own.exchange, DIT_SCATTER_QUERY), own.in_heads(q, DIT_SCATTER_QUERY));
      results.emplace_back(finish(of_k, own.exchange, DIT_SCATTER_KEY), own.in_heads(k, DIT_SCATTER_KEY));
    }
    for (const auto& [result, expected] : results) EXPECT_TRUE(same_bits(result, expected));
  });
}

TEST_P(Exchanges, ShapesForCompilersAreThoseOfResults) {
  on_ranks(GetParam().ranks, GetParam().attention, [](Rank& own) {
    const at::TensorOptions meta = at::TensorOptions(at::kMeta).dtype(at::kFloat);
    for (int what = DIT_SCATTER_QUERY; what <= DIT_GATHER_OUTPUT; ++what) {
      const at::Tensor whole = numbers(own.attention, what % 3 == 0, what);
      const at::Tensor x =
          what == DIT_GATHER_OUTPUT ? own.in_heads(whole, what).contiguous() : own.in_sequence(whole);
      const at::Tensor result = exchange(x, own.exchange, what);
      const at::Tensor fake = at::empty(x.sizes(), meta);
      const at::Tensor token = start(fake, own.exchange, what);
      const at::Tensor target = finish(token, own.exchange, what);
      EXPECT_EQ(token.numel(), 0);
      EXPECT_TRUE(target.is_meta());
      EXPECT_EQ(target.sizes(), result.sizes());
      EXPECT_EQ(target.strides(), result.strides());
      EXPECT_EQ(exchange(fake, own.exchange, what).sizes(), result.sizes());
    }
    const at::Tensor q = at::empty(own.shape.sequence, meta), k = at::empty(own.shape.sequence_kv, meta);
    const auto [query, key, value] = scatter_qkv(q, k, k, own.exchange);
    EXPECT_EQ(query.sizes(), at::IntArrayRef(own.shape.query));
    EXPECT_EQ(key.sizes(), at::IntArrayRef(own.shape.key));
    EXPECT_EQ(value.sizes(), key.sizes());
    EXPECT_EQ(gather(query, own.exchange).sizes(), q.sizes());
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, Exchanges, testing::ValuesIn(cases()));

TEST(TorchOperators, TakePartsOfAPackedProduct) {
  on_ranks(3, attention_of(2, 3, 17, 5, 5, 4), [](Rank& own) {
    const dit_torch_attention& of = own.attention;
    const at::Tensor whole = numbers(of.batch, own.tokens(), 3 * of.heads, of.head_dim, 4);
    const at::Tensor packed = own.in_sequence(whole);  // Q, K and V of a row beside each other
    const auto part = [&](const at::Tensor& from, int at) {
      return from.slice(2, at * of.heads, (at + 1) * of.heads);
    };
    ASSERT_FALSE(part(packed, 1).is_contiguous());
    const auto [query, key, value] =
        scatter_qkv(part(packed, 0), part(packed, 1), part(packed, 2), own.exchange);
    EXPECT_TRUE(same_bits(query, own.in_heads(part(whole, 0), DIT_SCATTER_QUERY)));
    EXPECT_TRUE(same_bits(key, own.in_heads(part(whole, 1), DIT_SCATTER_KEY)));
    EXPECT_TRUE(same_bits(value, own.in_heads(part(whole, 2), DIT_SCATTER_VALUE)));
    // What attention leaves: heads before rows.
    const at::Tensor heads_first =
        own.in_heads(part(whole, 0), DIT_GATHER_OUTPUT).transpose(1, 2).contiguous();
    EXPECT_TRUE(same_bits(gather(heads_first.transpose(1, 2), own.exchange), part(packed, 0)));
  });
}

TEST(TorchOperators, TakeSixteenBitNumbers) {
  for (const auto& [element, dtype] :
       {std::pair{DIT_ELEMENT_BF16, at::kBFloat16}, std::pair{DIT_ELEMENT_FP16, at::kHalf}}) {
    dit_torch_attention attention = attention_of(1, 2, 9, 5, 5, 4);
    attention.element_type = element;
    on_ranks(3, attention, [dtype = dtype](Rank& own) {
      const at::Tensor whole = numbers(own.attention, true, 3).to(dtype);
      const at::Tensor result = exchange(own.in_sequence(whole), own.exchange, DIT_SCATTER_QUERY);
      EXPECT_TRUE(same_bits(result, own.in_heads(whole, DIT_SCATTER_QUERY)));
    });
  }
}

TEST(TorchOperators, AllToAllIsThatOfTorchDistributed) {
  on_ranks(3, attention_of(1, 0, 3, 3, 3, 2), [](Rank& own) {
    // Rank r sends p + 1 rows of the number 10 r + p to rank p.
    std::vector<at::Tensor> sent, expected;
    std::vector<std::int64_t> input_splits, output_splits;
    for (int peer = 0; peer < own.ranks; ++peer) {
      sent.push_back(at::full({peer + 1, 2}, 10 * own.rank + peer, at::kLong));
      expected.push_back(at::full({own.rank + 1, 2}, 10 * peer + own.rank, at::kLong));
      input_splits.push_back(peer + 1);
      output_splits.push_back(own.rank + 1);
    }
    const at::Tensor output = at::zeros({3 * (own.rank + 1), 2}, at::kLong);
    all_to_all(output, at::cat(sent), output_splits, input_splits, own.group);
    EXPECT_TRUE(same_bits(output, at::cat(expected)));
    const at::Tensor even = at::arange(6, at::kInt) + 100 * own.rank;
    const at::Tensor turned = at::zeros({6}, at::kInt);
    all_to_all(turned, even, {}, {}, own.group);
    for (int peer = 0; peer < own.ranks; ++peer)
      EXPECT_EQ(turned[2 * peer].item<int>(), 100 * peer + 2 * own.rank);
  });
}

TEST(TorchOperators, AllGatherPutsUnevenPartsTogether) {
  on_ranks(3, attention_of(1, 0, 3, 3, 3, 2), [](Rank& own) {
    for (const std::int64_t total : {1, 5, 7}) {
      const std::int64_t begin = total * own.rank / own.ranks, end = total * (own.rank + 1) / own.ranks;
      for (const int dim : {0, 1, 2}) {
        std::vector<std::int64_t> sizes{2, 3, 4};
        sizes[static_cast<std::size_t>(dim)] = total;
        const at::Tensor whole = at::arange(total * 24 / (dim + 2), at::kInt).view(sizes);
        const at::Tensor found = all_gather(whole.slice(dim, begin, end), dim, total, own.group);
        EXPECT_TRUE(same_bits(found, whole)) << total << " on dimension " << dim;
      }
    }
  });
}

TEST(TorchOperators, ReportSaysWhatWasSent) {
  on_ranks(3, attention_of(2, 3, 11, 5, 5, 4, DIT_LAYOUT_TEXT_REPLICATED), [](Rank& own) {
    const at::Tensor whole = numbers(own.attention, true, 3);
    const at::Tensor x = own.in_sequence(whole);
    const auto [query, key, value] = scatter_qkv(x, x, x, own.exchange);
    (void)gather(query, own.exchange);
    std::size_t length = 0;
    require_ok(dit_torch_report(own.exchange.c_str(), nullptr, 0, &length));
    std::string text(length + 1, '\0');
    require_ok(dit_torch_report(own.exchange.c_str(), text.data(), text.size(), nullptr));
    const nlohmann::json facts = nlohmann::json::parse(text.substr(0, length));
    EXPECT_EQ(facts.at("ranks"), own.ranks);
    EXPECT_EQ(facts.at("started"), (std::vector<int>{1, 1, 1, 1}));
    EXPECT_EQ(facts.at("policy"), "exact");
    // Three tensors to the others' heads, and the output of own heads to the others' rows.
    const std::int64_t image = own.shape.image[1] - own.shape.image[0];
    const std::int64_t heads = own.shape.query[2];
    const std::int64_t scattered = 3 * 2 * image * (5 - heads) * 4;
    const std::int64_t gathered = 2 * ((own.ranks - 1) * 3 + 11 - image) * heads * 4;
    EXPECT_EQ(facts.at("full_bytes"), (scattered + gathered) * 4);
    std::int64_t sent = 0;
    for (const auto& level : facts.at("levels")) {
      sent += level.at("sent_bytes").get<std::int64_t>();
      EXPECT_EQ(level.at("sent_bytes"), level.at("full_bytes"));
    }
    EXPECT_EQ(facts.at("full_bytes"), sent);
  });
}

}  // namespace
}  // namespace dit::test
