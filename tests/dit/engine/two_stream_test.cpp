// A model of two streams and of two kinds of blocks behind the engine: joint text, shared key and value
// heads, an MLP beside attention.
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "../message_of.hpp"
#include "../test_folder.hpp"
#include "models/attention.hpp"
#include "models/patches.hpp"
#include "small_model.hpp"
#include "two_stream_model.hpp"
#include "wire/wire_words.hpp"

namespace dit {
namespace {

using test::TwoStreamConfig;

GenerateResult two_streams_on(int ranks, const GenerateOptions& options, const TwoStreamConfig& config = {}) {
  if (ranks == 1) {
    return Engine(test::two_stream_model(config), nullptr).generate(options);
  }
  GenerateResult of_first;
  run_local_ranks(test::nodes(ranks), [&](ExchangeContext& context) {
    GenerateResult result = Engine(test::two_stream_model(config), &context).generate(options);
    if (context.rank() == 0) of_first = std::move(result);
  });
  return of_first;
}

/// The model by hand, with attention over everything.
at::Tensor velocity_by_hand(const Model& model, const at::Tensor& image, double time, std::int64_t label) {
  const std::int64_t columns = image.size(3) / test::kPatch;
  const std::int64_t tokens = columns * image.size(2) / test::kPatch;
  const auto pass = model.forward_on({{0, model.shape().attention.text_tokens}, {0, tokens}, columns});
  pass->prepare(patchify(image, test::kPatch), time, label);
  for (int layer = 0; layer < model.shape().layers(); ++layer) {
    const std::vector<std::int64_t> kv = {0, 0, 0, 1, 1, 1};
    const at::Tensor attended = attention(pass->query(layer), pass->key(layer), pass->value(layer), kv);
    if (model.shape().blocks[static_cast<std::size_t>(layer)].mlp == MlpPlace::beside) {
      pass->mlp_in(layer);
      pass->mlp_out(layer);
      pass->finish(layer, attended);
    } else {
      pass->finish(layer, attended);
      pass->mlp(layer);
    }
  }
  return unpatchify(pass->last(), test::kPatch, image.size(2), image.size(3));
}

TEST(TwoStreams, OneEulerStepIsTheModelsOwn) {
  const at::NoGradGuard no_grad;
  GenerateOptions options = test::small_image();
  options.sampler.steps = 1;
  options.guidance = 1;
  const at::Tensor noise = seeded_noise(options.seed, 2, options.height, options.width).unsqueeze(0);
  const LoadedModel model = test::two_stream_model();
  const auto network = model.config.network->build(model.weights);
  const at::Tensor expected = noise - velocity_by_hand(*network, noise, 1.0, options.label);
  EXPECT_LT(test::relative_difference(two_streams_on(1, options).image, expected[0]), 1e-6);
}

TEST(TwoStreams, AllRankCountsAndPlacementsMakeTheSameImage) {
  GenerateOptions options = test::small_image();
  for (const JointOrder order : {JointOrder::text_image, JointOrder::image_text}) {
    for (const TextPlacement text : {TextPlacement::split, TextPlacement::replicated}) {
      const TwoStreamConfig config{.order = order, .text = text};
      const at::Tensor one = two_streams_on(1, options, config).image;
      for (const int ranks : {2, 3, 5, 7}) {
        const at::Tensor image = two_streams_on(ranks, options, config).image;
        EXPECT_LT(test::relative_difference(image, one), 1e-5) << ranks << " ranks";
      }
    }
  }
}

TEST(TwoStreams, AllSchedulesGiveTheSameBits) {
  for (const auto mode : {GuidanceMode::sequential, GuidanceMode::batched}) {
    GenerateOptions options = test::small_image();
    options.guidance_mode = mode;
    options.schedule = Schedule::flat;
    const at::Tensor flat = two_streams_on(3, options).image;
    for (const Schedule schedule : {Schedule::v_first, Schedule::pipelined}) {
      for (const int groups : {1, 2}) {
        options.schedule = schedule;
        options.head_groups = groups;
        EXPECT_TRUE(at::equal(two_streams_on(3, options).image, flat))
            << to_string(schedule) << ", " << groups << " groups";
      }
    }
  }
}

TEST(TwoStreams, LayersAndGraphAreTheModels) {
  GenerateOptions options = test::small_image();
  options.record_layers = true;
  const GenerateResult result = two_streams_on(2, options);
  ASSERT_EQ(result.layers.size(), 3U);
  for (const at::Tensor& layer : result.layers) {
    EXPECT_EQ(layer.sizes(), (at::IntArrayRef{39, test::kImageWidth}));
  }
  int beside = 0;
  for (const Step& step : result.graph.steps) beside += step.role == StepRole::mlp_out ? 1 : 0;
  EXPECT_EQ(beside, 2);
}

TEST(TwoStreams, PoliciesCodeTextRowsToo) {
  GenerateOptions options = test::longer_image();
  const at::Tensor exact = two_streams_on(3, options).image;
  options.wire = wire_policy_from("balanced", options.sampler.steps);
  run_local_ranks(test::nodes(3, 1), [&](ExchangeContext& context) {
    const GenerateResult result = Engine(test::two_stream_model(), &context).generate(options);
    if (context.rank() != 0) return;
    const double difference = test::relative_difference(result.image, exact);
    EXPECT_GT(difference, 0) << "something was coded";
    EXPECT_LT(difference, 0.2);
  });
}

TEST(TwoStreams, FilesAreFoundByTheirClassName) {
  const TestFolder folder;
  NetworkRegistry networks = built_in_networks();
  networks["TwoStream"] = test::read_two_stream;
  const LoadedModel model = test::two_stream_model();
  save_model(folder.path(), model.config, model.weights, {}, networks);
  const LoadedModel loaded = load_model(folder.path(), networks);
  EXPECT_EQ(loaded.config.network->class_name(), "TwoStream");
  EXPECT_EQ(loaded.config.network->shape().attention.text_tokens, 7);
  EXPECT_TRUE(at::equal(loaded.weights.at("text"), model.weights.at("text")));
  try {
    (void)load_model(folder.path());
    FAIL() << "the library has no such model";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("_class_name = \"TwoStream\", expected \"PixelDit\""),
              std::string::npos)
        << error.what();
  }
}

TEST(TwoStreams, AnMlpBesideAttentionThatAModelHasNotIsAnError) {
  const LoadedModel pixels = test::small_model();
  const auto model = pixels.config.network->build(pixels.weights);
  const auto pass = model->forward_on({{}, {0, 4}, 2});
  EXPECT_THROW(pass->mlp_in(1), std::logic_error);
  EXPECT_THROW(pass->mlp_out(1), std::logic_error);
}

}  // namespace
}  // namespace dit
