// Wire policies in the engine: exact where nothing is approximated, near it else, the same bits for all
// schedules and runs, memory as announced.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "engine/run_shape.hpp"
#include "small_model.hpp"
#include "wire/wire_policy_file.hpp"

namespace dit {
namespace {

using test::generate_on;
using test::longer_image;
using test::nodes;
using test::relative_difference;
using test::slow_bytes;
using test::small_model;

WirePolicy policy(std::initializer_list<const char*> modes, float momentum = 0) {
  WirePolicy policy;
  policy.name = "test";
  policy.momentum = momentum;
  int first = 0;
  for (const char* mode : modes) {  // one from the first step on, the next from the third, ...
    WireRule rule;
    rule.mode = parse_wire_mode(mode);
    rule.steps.first = first;
    first += 2;
    policy.rules.push_back(rule);
  }
  return policy;
}

TEST(Wire, FullIsExact) {
  GenerateOptions options = longer_image();
  for (const auto& group : {nodes(4, 2), nodes(7, 3), nodes(12, 3)}) {  // 12: more ranks than heads
    const at::Tensor exact = generate_on(group, options).image;
    GenerateOptions with = options;
    with.wire = policy({"full"});
    EXPECT_TRUE(at::equal(generate_on(group, with).image, exact));
    with.wire = policy({"residual int2", "full"});
    WireRule nothing;  // the residuals' rule never comes to pass, but what it would need is kept
    nothing.steps = {0, 1};
    nothing.mode = parse_wire_mode("full");
    with.wire->rules.push_back(nothing);
    EXPECT_TRUE(at::equal(generate_on(group, with).image, exact));
  }
}

TEST(Wire, NothingWithoutSlowLinks) {
  GenerateOptions options = longer_image();
  const at::Tensor exact = generate_on(nodes(5, 0), options).image;
  for (const std::string& name : wire_preset_names()) {
    options.wire = wire_preset(name, options.sampler.steps);
    const GenerateResult result = generate_on(nodes(5, 0), options);
    EXPECT_TRUE(at::equal(result.image, exact)) << name;
    EXPECT_EQ(result.report.cache.total(), 0U) << name;
    EXPECT_EQ(result.report.steps.back().codec_seconds, 0) << name;  // nothing is coded at all
  }
}

TEST(Wire, FewerBitsFewerBytesMoreError) {
  GenerateOptions options = longer_image();
  options.sampler.steps = 20;
  const auto group = nodes(4, 2);
  const GenerateResult exact = generate_on(group, options);
  double bytes = slow_bytes(exact);
  double error = 0;
  for (const char* mode : {"bf16", "residual int8", "residual int4", "residual int2"}) {
    options.wire = policy({mode});
    const GenerateResult result = generate_on(group, options);
    EXPECT_LT(slow_bytes(result), bytes) << mode;
    bytes = slow_bytes(result);
    const double now = relative_difference(result.image, exact.image);
    EXPECT_LT(now, 0.3) << mode;
    EXPECT_GT(now, 0) << mode;
    error = std::max(error, now);
  }
  EXPECT_GT(error, 1e-4);
  options.wire = policy({"fp8", "skip"});
  EXPECT_LT(slow_bytes(generate_on(group, options)), bytes);
}

TEST(Wire, HalfTheBytesInBf16) {
  GenerateOptions options = longer_image();
  const auto group = nodes(4, 1);
  const double full = slow_bytes(generate_on(group, options));
  options.wire = wire_preset("bf16", 50);
  EXPECT_NEAR(slow_bytes(generate_on(group, options)) / full, 0.5, 0.01);
}

TEST(Wire, ScheduleChangesNoBit) {
  GenerateOptions options = longer_image();
  options.wire =
      policy({"residual int8", "late residual int4", "rows 0.5 residual int4", "skip", "fp8"}, 0.75F);
  options.wire->guard = 0.2;
  for (const auto& group : {nodes(4, 2), nodes(7, 3), nodes(9, 1)}) {
    for (const GuidanceMode mode : {GuidanceMode::batched, GuidanceMode::sequential}) {
      options.guidance_mode = mode;
      options.schedule = Schedule::flat;
      const GenerateResult expected = generate_on(group, options);
      EXPECT_GT(expected.report.steps.back().slow_bytes, 0U);
      for (const Schedule schedule : {Schedule::flat, Schedule::v_first, Schedule::pipelined}) {
        options.schedule = schedule;
        const GenerateResult result = generate_on(group, options);
        EXPECT_TRUE(at::equal(result.image, expected.image)) << group.ranks << ' ' << to_string(schedule);
        if (schedule != Schedule::pipelined) {
          EXPECT_EQ(slow_bytes(result), slow_bytes(expected));
        }
      }
    }
  }
}

// K and V of the step before: as many bytes as at once but for the last step, one step old, and not the image
// that fresh ones make.
TEST(Wire, LateTensorsAreAStepOld) {
  GenerateOptions options = longer_image();
  const auto group = nodes(5, 2);
  const at::Tensor exact = generate_on(group, options).image;
  options.wire = policy({"bf16"});
  const GenerateResult fresh = generate_on(group, options);
  WireRule late;
  late.tensors = {AttentionTensor::key, AttentionTensor::value};
  late.mode = parse_wire_mode("late bf16");
  options.wire->rules.push_back(late);
  const GenerateResult result = generate_on(group, options);
  EXPECT_GT(relative_difference(result.image, exact), 2 * relative_difference(fresh.image, exact));
  EXPECT_LT(relative_difference(result.image, exact), 0.5);
  for (std::size_t step = 0; step + 1 < result.report.steps.size(); ++step) {
    EXPECT_EQ(result.report.steps[step].slow_bytes, fresh.report.steps[step].slow_bytes);
    EXPECT_EQ(result.report.steps[step].oldest_row, step == 0 ? 0 : 1);
  }
  EXPECT_LT(result.report.steps.back().slow_bytes, fresh.report.steps.back().slow_bytes);
}

// Steps that are left out for timing take the last velocity, and late blocks wait for the next forward pass.
TEST(Wire, SomeStepsOnly) {
  GenerateOptions options = longer_image();
  options.wire = wire_preset("displaced", options.sampler.steps);
  const auto group = nodes(4, 2);
  const GenerateResult whole = generate_on(group, options);
  for (int step = 0; step < options.sampler.steps; ++step) options.only_steps.push_back(step);
  EXPECT_TRUE(at::equal(generate_on(group, options).image, whole.image));
  options.only_steps = {0, 3, 5, 6};
  const GenerateResult some = generate_on(group, options);
  for (std::size_t step = 0; step < some.report.steps.size(); ++step) {
    const bool ran = step == 0 || step == 3 || step == 5 || step == 6;
    EXPECT_EQ(some.report.steps[step].reused, !ran);
    EXPECT_EQ(some.report.steps[step].slow_bytes, ran ? whole.report.steps[step].slow_bytes : 0);
  }
  for (const std::vector<int>& wrong : {std::vector<int>{1, 2}, {0, 3, 3}, {0, 10}}) {
    options.only_steps = wrong;
    EXPECT_THROW(generate_on(group, options), std::invalid_argument);
  }
}

// The local plugin, which also keeps a digest of every byte that this thread's rank sends.
thread_local std::uint64_t sent_digest = 0;

dit_status start_and_listen(dit_context* context, const dit_exchange_call* call, dit_request** request) {
  const dit_exchange_plugin* local = dit_exchange_local_plugin_v1(DIT_EXCHANGE_VERSION);
  for (int peer = 0; peer < local->size(context); ++peer) {
    const dit_block& block = call->send_blocks[peer];
    sent_digest = (sent_digest ^ block.bytes) * 1099511628211U;
    for (std::size_t i = 0; i < block.bytes; ++i) {
      const auto byte = static_cast<const unsigned char*>(call->send)[block.offset + i];
      sent_digest = (sent_digest ^ byte) * 1099511628211U;
    }
  }
  return local->start(context, call, request);
}

const dit_exchange_plugin* listening_plugin(std::uint32_t wanted) {
  static const dit_exchange_plugin table = [&] {
    dit_exchange_plugin listening = *dit_exchange_local_plugin_v1(wanted);
    listening.start = start_and_listen;
    return listening;
  }();
  return &table;
}

struct HeardRun {
  at::Tensor image;
  std::vector<std::uint64_t> sent;  // of each rank: a digest
  bool operator==(const HeardRun& other) const { return at::equal(image, other.image) && sent == other.sent; }
};

/// Ranks are numbered from the first one of `first_node`.
HeardRun heard_run(const GenerateOptions& options, int first_node) {
  constexpr int kRanks = 4, kOfNode = 2;
  HeardRun run;
  run.sent.resize(kRanks);
  std::vector<dit_local_member> members = make_local_group(nodes(kRanks, kOfNode));
  std::vector<std::thread> threads;
  for (dit_local_member& member : members) {
    threads.emplace_back([&] {
      ExchangeContext::Options how;
      how.communicator = &member;
      ExchangeContext context(ExchangePlugin::linked(listening_plugin), how);
      const auto order = context.split(0, (context.rank() + first_node * kOfNode) % kRanks);
      sent_digest = 0;
      const at::Tensor image = Engine(small_model(), order.get()).generate(options).image;
      run.sent[static_cast<std::size_t>(order->rank())] = sent_digest;
      if (order->rank() == 0) run.image = image;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return run;
}

// The same policy and seed: the same image and the same bytes on the wire, again, and with the nodes in
// another order.
TEST(Wire, SameBytesAgainAndForNodesInAnotherOrder) {
  GenerateOptions options = longer_image();
  options.wire = policy({"residual int8", "rows 0.5 residual int4", "residual int1", "late fp8"}, 0.75F);
  options.wire->guard = 0.05;
  for (const char* text : {"here", "balanced", "fast"}) {
    if (std::string(text) != "here") options.wire = wire_preset(text, options.sampler.steps);
    options.wire = parse_wire_policy(to_json(*options.wire), text);  // as a file brings it
    const HeardRun expected = heard_run(options, 0);
    EXPECT_EQ(std::count(expected.sent.begin(), expected.sent.end(), 0U), 0) << text;
    EXPECT_TRUE(heard_run(options, 0) == expected) << text;
    EXPECT_TRUE(heard_run(options, 1) == expected) << text;
    ++options.seed;
    EXPECT_NE(heard_run(options, 0).sent, expected.sent) << text;
  }
}

// On levels that are off everything travels as it is, and nothing is remembered for it.
TEST(Wire, OffIsExact) {
  GenerateOptions options = longer_image();
  const auto group = nodes(5, 2);
  const GenerateResult exact = generate_on(group, options);
  options.wire = wire_preset("balanced", options.sampler.steps);
  options.wire->off = {"world"};
  const GenerateResult off = generate_on(group, options);
  EXPECT_TRUE(at::equal(off.image, exact.image));
  EXPECT_EQ(slow_bytes(off), slow_bytes(exact));
  EXPECT_EQ(off.report.cache.total(), 0U);
  EXPECT_EQ(off.report.steps.back().codec_seconds, 0);
  options.wire->off = {"node"};  // they are exact anyway
  EXPECT_LT(slow_bytes(generate_on(group, options)), slow_bytes(exact));
}

TEST(Wire, RowsGrowOld) {
  GenerateOptions options = longer_image();
  options.wire = policy({"rows 0.3 fp8"});
  const auto group = nodes(4, 2);
  const GenerateResult result = generate_on(group, options);
  EXPECT_GT(result.report.steps.back().oldest_row, 2);
  EXPECT_GT(result.report.rows_by_age.at(0), 0U);
  options.wire->most_age = 4;
  EXPECT_LT(generate_on(group, options).report.steps.back().oldest_row, 4);
}

TEST(Wire, MemoryIsAnnounced) {
  GenerateOptions options = longer_image();
  options.wire = policy({"residual int4"});
  const std::uint64_t plain = generate_on(nodes(4, 1), options).report.cache.total();
  EXPECT_GT(plain, 0U);
  options.wire->momentum = 0.5F;
  EXPECT_EQ(3 * generate_on(nodes(4, 1), options).report.cache.total(), 4 * plain);
  options.cache_budget = plain;
  EXPECT_THROW(generate_on(nodes(4, 1), options), std::length_error);
}

// What leaves too much behind goes in more bits: more bytes, less error, the same on all ranks (no rank waits
// for bytes that do not come).
TEST(Wire, GuardSendsMore) {
  GenerateOptions options = longer_image();
  const auto group = nodes(5, 2);
  const at::Tensor exact = generate_on(group, options).image;
  options.wire = policy({"residual int1"});
  const GenerateResult free = generate_on(group, options);
  options.wire->guard = 0.02;
  const GenerateResult guarded = generate_on(group, options);
  EXPECT_EQ(free.report.steps[3].guarded, 0);
  EXPECT_GT(guarded.report.steps[0].guarded, 0);
  EXPECT_GT(guarded.report.steps[0].slow_bytes, free.report.steps[0].slow_bytes);  // in the step itself
  EXPECT_GT(slow_bytes(guarded), slow_bytes(free));
  EXPECT_LT(relative_difference(guarded.image, exact), relative_difference(free.image, exact));
  options.wire->guard = 1e6;
  const GenerateResult never = generate_on(group, options);
  EXPECT_TRUE(at::equal(never.image, free.image));
}

/// Norms as large as a softmax without the maximum allows.
LoadedModel loud_model() {
  LoadedModel model = small_model();
  for (auto& [name, tensor] : model.weights) {
    if (name.find("attn.norm_") != std::string::npos) {
      tensor = at::full_like(tensor, 4.4);
    }
  }
  return model;
}

at::Tensor image_of(const LoadedModel& model, const LocalGroupOptions& group,
                    const GenerateOptions& options) {
  at::Tensor image;
  run_local_ranks(group, [&](ExchangeContext& context) {
    const at::Tensor made = Engine(model, &context).generate(options).image;
    if (context.rank() == 0) {
      image = made;
    }
  });
  return image;
}

// Decoded queries and keys have other norms than the model's: what moved on and on grows without a bound.
TEST(Wire, WhatIsForeseenTooFarIsStillFinite) {
  GenerateOptions options = longer_image();
  options.sampler.steps = 40;
  options.wire = policy({"full", "skip"}, 1.0F);
  EXPECT_TRUE(at::isfinite(image_of(loud_model(), nodes(3, 1), options)).all().item<bool>());
  options.wire = policy({"residual int8", "skip", "residual int2"}, 0.9F);
  options.wire->rules[2].every = 6;
  EXPECT_TRUE(at::isfinite(image_of(loud_model(), nodes(3, 1), options)).all().item<bool>());
}

// An image that is none is an error on any ranks, with the place where it broke.
TEST(Engine, NotFiniteIsAnErrorWithStepAndLayer) {
  const GenerateOptions options = longer_image();
  for (const double broken : {std::nan(""), HUGE_VAL}) {
    LoadedModel model = small_model();
    model.weights["blocks.1.ff.net.2.bias"][3] = broken;
    for (const int ranks : {1, 3}) {
      try {
        image_of(model, nodes(ranks), options);
        ADD_FAILURE() << ranks << " ranks";
      } catch (const NotFinite& error) {
        EXPECT_EQ(error.step(), 0);
        EXPECT_EQ(error.layer(), std::optional(1));
        EXPECT_EQ(
            std::string(error.what()),
            "the image is not finite in step 0 of 10, from layer 1 on (from 0): expected finite weights");
      }
    }
    model = small_model();
    model.weights["proj_out.bias"][0] = broken;
    try {
      image_of(model, nodes(2), options);
      ADD_FAILURE();
    } catch (const NotFinite& error) {
      EXPECT_EQ(error.layer(), std::nullopt);
    }
  }
}

TEST(StepCache, TakesTheLastAnswer) {
  GenerateOptions options = longer_image();
  options.sampler.steps = 20;
  const at::Tensor exact = generate_on(1, options).image;
  options.step_cache = 1e-9;
  const GenerateResult never = generate_on(1, options);
  EXPECT_TRUE(at::equal(never.image, exact));
  options.step_cache = 1.5;
  const GenerateResult some = generate_on(1, options);
  const auto reused = [](const GenerateResult& result) {
    return std::count_if(result.report.steps.begin(), result.report.steps.end(),
                         [](const StepReport& step) { return step.reused; });
  };
  EXPECT_GT(reused(some), 0);
  EXPECT_FALSE(some.report.steps.front().reused);
  EXPECT_FALSE(some.report.steps.back().reused);
  EXPECT_LT(reused(some), 18);
  EXPECT_LT(relative_difference(some.image, exact), 0.6);
  options.step_cache = 1000;
  EXPECT_EQ(reused(generate_on(1, options)), 18);
}

// On any ranks the same steps are left out, and it goes together with a wire policy.
TEST(StepCache, RanksAgree) {
  GenerateOptions options = longer_image();
  options.sampler.steps = 20;
  options.step_cache = 1.5;
  const at::Tensor alone = generate_on(1, options).image;
  EXPECT_LT(relative_difference(generate_on(nodes(5, 2), options).image, alone), 1e-4);
  options.wire = policy({"residual int8", "residual int4"}, 0.5F);
  EXPECT_LT(relative_difference(generate_on(nodes(5, 2), options).image, alone), 0.2);
}

TEST(Wire, BranchesApart) {
  GenerateOptions options = longer_image();
  options.wire = policy({"bf16"});
  options.wire->rules[0].branch = 1;
  const auto group = nodes(4, 1);
  EXPECT_THROW(generate_on(group, options), std::invalid_argument);
  for (const GuidanceMode mode : {GuidanceMode::sequential, GuidanceMode::parallel}) {
    options.guidance_mode = mode;
    const double some = slow_bytes(generate_on(group, options));
    GenerateOptions other = options;
    other.wire->rules[0].branch = -1;
    EXPECT_LE(slow_bytes(generate_on(group, other)), some);
  }
}

TEST(Wire, HalfPrecision) {
  GenerateOptions options = longer_image();
  options.dtype = at::kBFloat16;
  const at::Tensor exact = generate_on(nodes(4, 2), options).image;
  options.wire = policy({"residual int8"});
  EXPECT_LT(relative_difference(generate_on(nodes(4, 2), options).image, exact), 0.1);
}

TEST(Wire, RefusesWhatDoesNotFit) {
  const auto refused = [](const GenerateOptions& options) {
    EXPECT_THROW(generate_on(nodes(4, 2), options), std::invalid_argument);
  };
  GenerateOptions options = longer_image();
  options.wire = policy({"fp8"});
  options.dtype = at::kDouble;
  refused(options);
  options.dtype = at::kFloat;
  options.wire->rules[0].level = "planet";
  refused(options);
  options.wire->rules[0].level.clear();
  options.wire->off = {"planet"};
  refused(options);
  options.wire->off.clear();
  options.wire->momentum = 2;
  refused(options);
}

}  // namespace
}  // namespace dit
