// What dit_torch_try_policy tries, and what it says.
#include "trial.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "ranks.hpp"

namespace dit::test {
namespace {

using operators::policy_pays;

dit_torch_trial trial_of(const Rank& own, const char* policy, int steps = 4) {
  dit_torch_attention attention = own.attention;
  attention.policy = policy;
  attention.layers = 3;
  attention.steps = steps;
  dit_torch_trial trial{};
  trial.struct_size = sizeof trial;
  require_ok(dit_torch_try_policy(own.group.c_str(), &attention, &trial));
  return trial;
}

TEST(Trial, ThePolicyHasToWinClearly) {
  EXPECT_TRUE(policy_pays(1.0, 0.69));
  EXPECT_FALSE(policy_pays(1.0, 0.71));
  EXPECT_FALSE(policy_pays(1.0, 1.5));
}

TEST(Trial, PresetsBetweenNodesAreTimedAndAllRanksHearTheSame) {
  for (const char* preset : {"fp8", "balanced", "fast", "paper"})
    for (const int steps : {1, 2, 50}) {
      std::mutex mutex;
      std::vector<dit_torch_trial> trials;
      on_ranks(3, attention_of(1, 5, 40, 6, 3, 16), [&](Rank& own) {
        const dit_torch_trial trial = trial_of(own, preset, steps);
        const std::lock_guard lock(mutex);
        trials.push_back(trial);
      });
      ASSERT_EQ(trials.size(), 3U);
      for (const dit_torch_trial& trial : trials) {
        EXPECT_GT(trial.exact_seconds, 0) << preset;
        EXPECT_GT(trial.policy_seconds, 0) << preset;
        EXPECT_EQ(trial.exact_seconds, trials[0].exact_seconds);
        EXPECT_EQ(trial.policy_seconds, trials[0].policy_seconds);
        EXPECT_EQ(trial.pays, policy_pays(trial.exact_seconds, trial.policy_seconds) ? 1 : 0);
      }
    }
}

TEST(Trial, LongExchangesAreEstimatedFromAPart) {
  on_ranks(2, attention_of(1, 5, 40, 6, 3, 16), [](Rank& own) {
    double whole = 0, part = 0;
    require_ok(dit_torch_exact_time(own.group.c_str(), &own.attention, 100, &whole));
    require_ok(dit_torch_exact_time(own.group.c_str(), &own.attention, 0, &part));
    EXPECT_GT(whole, 0);
    EXPECT_GT(part, 0);
    EXPECT_EQ(dit_torch_exact_time(own.group.c_str(), &own.attention, 0, nullptr), DIT_ERROR_ARGUMENT);
  });
}

TEST(Trial, FewerTokensThanRanks) {
  on_ranks(3, attention_of(2, 0, 1, 2, 2, 8),
           [&](Rank& own) { EXPECT_GT(trial_of(own, "fp8").policy_seconds, 0); });
}

TEST(Trial, WhatSomebodyHasChosenIsNotTried) {
  on_ranks(2, attention_of(1, 0, 16, 4, 4, 8), [](Rank& own) {
    for (const char* policy :
         {"exact", "v-major:warmup=1,refresh=2,ratio=linear",
          R"({"format": "dit-wire-policy", "version": 1, "rules": [{"mode": "fp8"}]})"}) {
      const dit_torch_trial trial = trial_of(own, policy);
      EXPECT_EQ(trial.pays, 1) << policy;
      EXPECT_EQ(trial.policy_seconds, 0) << policy;
    }
  });
}

TEST(Trial, RanksThatAskForDifferentThingsAreTold) {
  on_ranks(2, attention_of(1, 0, 16, 4, 4, 8), [](Rank& own) {
    dit_torch_attention attention = own.attention;
    attention.policy = own.rank == 0 ? "fp8" : "v-major:warmup=1,refresh=2,ratio=linear";
    attention.steps = 4;
    dit_torch_trial trial{};
    trial.struct_size = sizeof trial;
    EXPECT_EQ(dit_torch_try_policy(own.group.c_str(), &attention, &trial), DIT_ERROR_ARGUMENT);
    EXPECT_THAT(dit_torch_last_error(), testing::HasSubstr("policy is a preset differs between ranks"));
    double seconds = 0;
    EXPECT_EQ(dit_torch_exact_time(own.group.c_str(), &own.attention, own.rank, &seconds),
              DIT_ERROR_ARGUMENT);
    EXPECT_THAT(dit_torch_last_error(), testing::HasSubstr("enough differs between ranks"));
  });
}

TEST(Trial, NothingOfItIsLeft) {
  on_ranks(2, attention_of(1, 0, 16, 4, 4, 8), [](Rank& own) {
    (void)trial_of(own, "fp8");
    std::vector<char> text(1 << 16);
    require_ok(dit_torch_report(own.exchange.c_str(), text.data(), text.size(), nullptr));
    EXPECT_THAT(std::string(text.data()), testing::HasSubstr("\"sent_bytes\":0"));
    EXPECT_THAT(std::string(text.data()), testing::HasSubstr("\"started\":[0,0,0,0]"));
  });
}

TEST(Trial, WrongArgumentsAreNamed) {
  on_ranks(2, attention_of(1, 0, 16, 4, 4, 8), [](Rank& own) {
    dit_torch_attention attention = own.attention;
    attention.policy = "fp8";
    EXPECT_EQ(dit_torch_try_policy("no group", &attention, nullptr), DIT_ERROR_ARGUMENT);
    EXPECT_THAT(dit_torch_last_error(), testing::HasSubstr("no group"));
    EXPECT_EQ(dit_torch_try_policy(own.group.c_str(), &attention, nullptr), DIT_ERROR_ARGUMENT);
    EXPECT_THAT(dit_torch_last_error(), testing::HasSubstr("trial"));
    attention.element_type = 77;
    dit_torch_trial trial{};
    trial.struct_size = sizeof trial;
    EXPECT_EQ(dit_torch_try_policy(own.group.c_str(), &attention, &trial), DIT_ERROR_ARGUMENT);
    EXPECT_THAT(dit_torch_last_error(), testing::HasSubstr("element_type = 77"));
  });
}

}  // namespace
}  // namespace dit::test
