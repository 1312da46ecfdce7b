// Misuse: the same words on all ranks, and nobody left waiting.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <mutex>
#include <set>

#include "../message_of.hpp"
#include "engine/threads.hpp"
#include "small_model.hpp"
#include "wire/v_major.hpp"

namespace dit {
namespace {

using test::nodes;
using test::small_image;
using testing::HasSubstr;
using testing::StartsWith;

/// What generate throws on `ranks` ranks: one text, as all say the same.
std::string refusal(const LocalGroupOptions& group,
                    const std::function<void(GenerateOptions&, int rank)>& change) {
  std::mutex mutex;
  std::set<std::string> said;
  run_local_ranks(group, [&](ExchangeContext& context) {
    Engine engine(test::small_model(), &context);
    GenerateOptions options = small_image();
    change(options, context.rank());
    const std::string words = message_of([&] { static_cast<void>(engine.generate(options)); });
    const std::lock_guard lock(mutex);
    said.insert(words);
  });
  EXPECT_EQ(said.size(), 1U) << testing::PrintToString(said);
  return *said.begin();
}

std::string refusal(const std::function<void(GenerateOptions&)>& change) {
  return refusal(nodes(3), [&](GenerateOptions& options, int) { change(options); });
}

TEST(Options, EachIsRefusedByName) {
  EXPECT_EQ(refusal([](auto& o) { o.label = 3; }), "label = 3: expected 0 to 2");
  EXPECT_EQ(refusal([](auto& o) { o.label = -1; }), "label = -1: expected 0 to 2");
  EXPECT_EQ(refusal([](auto& o) { o.height = 13; }),
            "height = 13: expected a multiple of the patch size 4, from 4 to 16384");
  EXPECT_THAT(refusal([](auto& o) { o.width = 0; }), StartsWith("width = 0: expected"));
  EXPECT_THAT(refusal([](auto& o) { o.width = 1 << 20; }), StartsWith("width = 1048576: expected"));
  EXPECT_EQ(refusal([](auto& o) { o.guidance = -2; }), "guidance = -2: expected 0 to 1000");
  EXPECT_THAT(refusal([](auto& o) { o.guidance = std::nan(""); }), StartsWith("guidance = nan: expected"));
  EXPECT_EQ(refusal([](auto& o) { o.head_groups = 0; }),
            "head_groups = 0: expected 1 to 2, the heads of a rank");
  EXPECT_EQ(refusal([](auto& o) { o.head_groups = 3; }),
            "head_groups = 3: expected 1 to 2, the heads of a rank");
  EXPECT_EQ(refusal([](auto& o) { o.dtype = at::kHalf; }),
            "dtype = Half: expected Float, BFloat16 or Double on a CPU");
  EXPECT_THAT(refusal([](auto& o) { o.device = at::Device("cuda:0"); }),
              StartsWith("device = cuda:0: expected cpu with 3 ranks"));
  EXPECT_EQ(refusal([](auto& o) { o.guidance_mode = GuidanceMode::parallel; }),
            "guidance_mode = parallel: expected an even number of ranks for it, not 3");
  EXPECT_THAT(refusal([](auto& o) { o.sampler.steps = 0; }), HasSubstr("0"));
}

TEST(Options, MoreRanksThanHeadsMayBeRefused) {
  const std::string words =
      refusal(nodes(7), [](GenerateOptions& options, int) { options.beyond_heads = BeyondHeads::refuse; });
  EXPECT_THAT(words, StartsWith("ranks = 7: expected at most 5"));
}

TEST(Options, VMajorsAreRefusedByName) {
  const auto with = [](const std::function<void(VMajorPolicy&, GenerateOptions&)>& change) {
    return refusal(nodes(4, 2), [&](GenerateOptions& options, int) {
      VMajorPolicy policy;
      change(policy, options);
      options.wire = wire_policy_of(policy, options.sampler.steps);
    });
  };
  EXPECT_THAT(with([](auto& policy, auto&) { policy.boundary = "rack"; }), HasSubstr("rack"));
  EXPECT_THAT(with([](auto&, auto& options) { options.dtype = at::kDouble; }),
              StartsWith("dtype = Double: expected Float or BFloat16"));
  EXPECT_THAT(with([](auto& policy, auto& options) {
                policy.warmup_steps = 1;
                options.cache_budget = 100;
              }),
              HasSubstr("100"));
}

TEST(Options, OnesThatDifferBetweenRanksAreRefused) {
  EXPECT_EQ(refusal(nodes(3), [](GenerateOptions& options, int rank) { options.seed = rank == 2 ? 1 : 0; }),
            "options of rank 2 is not that of rank 0: expected the same on all ranks");
}

TEST(Engine, WeightsThatDoNotFitOnOneRankFailOnAll) {
  std::mutex mutex;
  std::set<std::string> said;
  run_local_ranks(nodes(3), [&](ExchangeContext& context) {
    LoadedModel model = test::small_model();
    if (context.rank() == 1) {
      model.weights.erase("proj_out.bias");
    }
    const std::string words = misuse_of([&] { const Engine engine(model, &context); });
    const std::lock_guard lock(mutex);
    said.insert(words);
  });
  EXPECT_EQ(said, (std::set<std::string>{"rank 1: tensor proj_out.bias is missing: expected shape [32]"}));
}

TEST(Engine, ModelsThatDifferAreRefused) {
  run_local_ranks(nodes(2), [&](ExchangeContext& context) {
    LoadedModel model = test::small_model();
    if (context.rank() == 1) {
      model.config.class_names[0] = "dots";
    }
    EXPECT_THROW(Engine(model, &context), std::invalid_argument);
  });
}

TEST(Threads, ShareOfTheCoresOrWhatTheVariableSays) {
  unsetenv("DIT_THREADS");
  EXPECT_GE(compute_threads_for(nullptr), 1);
  run_local_ranks(nodes(12, 3), [](ExchangeContext& context) {
    EXPECT_LE(compute_threads_for(&context), std::max(1, compute_threads_for(nullptr) / 12));
  });
  setenv("DIT_THREADS", "3", 1);
  EXPECT_EQ(compute_threads_for(nullptr), 3);
  for (const char* wrong : {"0", "many", "2x", "", "4000"}) {
    setenv("DIT_THREADS", wrong, 1);
    EXPECT_EQ(misuse_of([] { static_cast<void>(compute_threads_for(nullptr)); }),
              std::string("DIT_THREADS = ") + wrong + ": expected a number from 1 to 1024");
  }
  unsetenv("DIT_THREADS");
}

}  // namespace
}  // namespace dit
