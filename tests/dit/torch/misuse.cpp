// What is wrong is told by argument, value and expectation, on the host and before anybody waits.
#include <gmock/gmock.h>

#include "operators.hpp"
#include "ranks.hpp"

namespace dit::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Words of the torch error that a call throws.
template <typename Call>
std::string words_of(const Call& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "nothing was thrown";
}

TEST(TorchOperatorsMisuse, OperatorsNameTheArgument) {
  on_ranks(1, attention_of(2, 0, 3, 2, 2, 4), [](Rank& own) {
    const at::Tensor x = numbers(own.attention, true, 1);
    const std::string& name = own.exchange;
    EXPECT_THAT(words_of([&] { exchange(x, "nobody", 0); }),
                AllOf(HasSubstr("dit::exchange: exchange = \"nobody\" is not known"), HasSubstr(name)));
    EXPECT_THAT(words_of([&] { exchange(x, name, 4); }), HasSubstr("what = 4: expected 0 (query)"));
    EXPECT_THAT(words_of([&] { exchange(x.slice(1, 0, 2), name, 0); }),
                AllOf(HasSubstr("x (query) is a tensor [2, 2, 2, 4]"), HasSubstr("expected [2, 3, 2, 4]")));
    EXPECT_THAT(words_of([&] { exchange(x.to(at::kHalf), name, 0); }),
                AllOf(HasSubstr("of Half"), HasSubstr("expected [2, 3, 2, 4] of Float on cpu")));
    EXPECT_THAT(words_of([&] {
                  exchange(at::empty({2, 3, 4, 2}).transpose(2, 3), name, 0);
                }),
                HasSubstr("a last stride of 1"));
    EXPECT_THAT(words_of([&] { finish(x, name, 1); }), HasSubstr("nothing is under way of key in exchange"));
    Prepared how;
    how.norm = 3;
    EXPECT_THAT(words_of([&] { exchange(x, name, 0, 0, how); }), HasSubstr("norm = 3: expected 0 to 2"));
    how.norm = DIT_NORM_HEAD;
    how.weight = at::ones({5});
    EXPECT_THAT(words_of([&] { exchange(x, name, 0, 0, how); }),
                AllOf(HasSubstr("weight is a tensor [5]"), HasSubstr("4 numbers of Float")));
    how.norm = 0;
    EXPECT_THAT(words_of([&] { exchange(x, name, 0, 0, how); }), HasSubstr("weight is given with norm = 0"));
    how.weight = c10::nullopt;
    how.rope = DIT_ROPE_HALVES;
    EXPECT_THAT(words_of([&] { exchange(x, name, 0, 0, how); }), HasSubstr("cosine or sine is None"));
    how.rope = 0;
    how.norm = DIT_NORM_HEAD;
    EXPECT_THAT(words_of([&] { exchange(x, name, 3, 0, how); }), HasSubstr("expected 0 of the output"));
    EXPECT_THAT(words_of([&] {
                  all_to_all(x, x, {1, 1}, {}, own.group);
                }),
                HasSubstr("output_splits = [1, 1]: expected 1 numbers whose sum is 2"));
    EXPECT_THAT(words_of([&] { all_gather(x, 4, 2, own.group); }), HasSubstr("dim is 4: expected 0 or more"));
    EXPECT_THAT(words_of([&] { all_gather(x, 1, 9, own.group); }),
                HasSubstr("expected 9 on dimension 1, rank 0's part of 9 on 1 ranks"));
    EXPECT_TRUE(same_bits(exchange(x, name, 0), x)) << "an error left something behind";
  });
}

TEST(TorchOperatorsMisuse, AStartComesOnce) {
  on_ranks(2, attention_of(1, 0, 4, 2, 2, 4), [](Rank& own) {
    const at::Tensor x = own.in_sequence(numbers(own.attention, true, 1));
    const at::Tensor token = start(x, own.exchange, DIT_SCATTER_QUERY);
    EXPECT_THAT(words_of([&] { start(x, own.exchange, DIT_SCATTER_QUERY); }),
                HasSubstr("a start of query in exchange"));
    EXPECT_TRUE(same_bits(finish(token, own.exchange, DIT_SCATTER_QUERY),
                          own.in_heads(numbers(own.attention, true, 1), DIT_SCATTER_QUERY)));
  });
}

TEST(TorchOperatorsMisuse, WhatIsUnderWayIsGivenUpWhenItsExchangeIsFreed) {
  on_ranks(2, attention_of(1, 0, 4, 2, 2, 4), [](Rank& own) {
    const at::Tensor whole = numbers(own.attention, true, 1);
    (void)start(own.in_sequence(whole), own.exchange, DIT_SCATTER_QUERY);
    require_ok(dit_torch_exchange_free(own.exchange.c_str()));
    EXPECT_EQ(dit_torch_has_exchange(own.exchange.c_str()), 0);
    require_ok(dit_torch_exchange(own.exchange.c_str(), own.group.c_str(), &own.attention));
    EXPECT_TRUE(same_bits(exchange(own.in_sequence(whole), own.exchange, DIT_SCATTER_QUERY),
                          own.in_heads(whole, DIT_SCATTER_QUERY)));
  });
}

TEST(TorchOperatorsMisuse, SetupNamesTheMember) {
  on_ranks(2, attention_of(1, 0, 4, 2, 2, 4), [](Rank& own) {
    const char* const group = own.group.c_str();
    const std::string name = "other " + std::to_string(own.rank);
    const auto refused = [&](const dit_torch_attention& attention) -> std::string {
      EXPECT_EQ(dit_torch_exchange(name.c_str(), group, &attention), DIT_ERROR_ARGUMENT);
      EXPECT_EQ(dit_torch_has_exchange(name.c_str()), 0);
      return dit_torch_last_error();
    };
    dit_torch_attention attention = own.attention;
    attention.slots = own.rank == 1 ? -1 : 0;  // of one rank: all are told
    EXPECT_THAT(refused(attention), HasSubstr("attention->slots = -1: expected 1 to 1024"));
    attention = own.attention;
    attention.heads = 3;
    EXPECT_THAT(refused(attention), HasSubstr("kv_heads"));
    attention = own.attention;
    attention.policy = "exacter";
    EXPECT_THAT(refused(attention), HasSubstr("exacter"));
    attention.policy = nullptr;
    attention.side_stream = 1;
    EXPECT_THAT(refused(attention), HasSubstr("attention->side_stream = 1: expected 0 to 0"));
    EXPECT_EQ(dit_torch_exchange(own.exchange.c_str(), group, &own.attention), DIT_ERROR_ARGUMENT);
    EXPECT_THAT(dit_torch_last_error(), HasSubstr("is in use: expected a new name"));
    EXPECT_EQ(dit_torch_exchange(name.c_str(), "nobody", &own.attention), DIT_ERROR_ARGUMENT);
    EXPECT_THAT(dit_torch_last_error(), HasSubstr("group = \"nobody\" is not known"));
    EXPECT_EQ(dit_torch_begin_step(own.exchange.c_str(), 1, 0), DIT_ERROR_ARGUMENT);
    EXPECT_THAT(dit_torch_last_error(), HasSubstr("step = 1: expected 0 to 0"));
    EXPECT_EQ(dit_torch_open("third", nullptr, 0, nullptr), DIT_ERROR_ARGUMENT);
    EXPECT_THAT(dit_torch_last_error(), HasSubstr("ranks is null"));
    EXPECT_EQ(dit_torch_close("nobody"), DIT_OK);
    EXPECT_EQ(dit_torch_exchange_free("nobody"), DIT_OK);
  });
}

}  // namespace
}  // namespace dit::test
