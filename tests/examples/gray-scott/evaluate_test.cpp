#include "evaluate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "evaluation_sheet.hpp"
#include "sample_fields.hpp"
#include "training_fixture.hpp"

namespace dit::gray_scott {
namespace {

using testing::HasSubstr;

LoadedModel small_model() {
  LoadedModel model;
  model.config.network = pixel_dit_network(small_network(2));
  model.config.class_names = {"spots", "maze"};
  model.config.channels = {{"u", 0.7, 0.2}, {"v", 0.1, 0.1}};
  model.weights = PixelDit::initial_weights(small_network(2), 1);
  return model;
}

EvaluateOptions small_evaluation() {
  EvaluateOptions options;
  options.regimes = {gray_scott_regimes()[0], gray_scott_regimes()[5]};
  options.size = 16;
  options.per_class = 2;
  options.simulation_steps = 50;
  options.steps = 2;
  options.device = "cpu";
  return options;
}

TEST(SampleFields, OneFieldPerLabelWhateverTheBatch) {
  const LoadedModel loaded = small_model();
  TensorMap weights = loaded.weights;
  at::manual_seed(3);
  for (auto& [name, tensor] : weights) {
    tensor = tensor + 0.05 * at::randn(tensor.sizes());
  }
  const PixelDit model(pixel_dit_config(*loaded.config.network), weights);
  SampleOptions options;
  options.size = 16;
  options.steps = 3;
  const at::Tensor labels = at::tensor({0, 1, 1}, at::kLong);
  const at::Tensor once = sample_fields(model, labels, options);
  ASSERT_EQ(once.sizes(), (at::IntArrayRef{3, 2, 16, 16}));
  EXPECT_TRUE(at::equal(once, sample_fields(model, labels, options)));
  options.guidance = 1.0;
  EXPECT_FALSE(at::equal(once, sample_fields(model, labels, options)));
}

TEST(Evaluation, BlindModelMakesNoiseAndIsSeenAsSuch) {
  const Evaluation evaluation(small_model(), small_evaluation());  // a fresh model answers zero: noise stays
  const EvaluationReport report = evaluation.compare(1.0);
  ASSERT_EQ(report.classes.size(), 2U);
  EXPECT_EQ(report.generated.sizes(), (at::IntArrayRef{4, 2, 16, 16}));
  const ChannelComparison& v = report.classes[0].channels.at(1);
  EXPECT_NEAR(v.generated_mean.value, 0.1, 0.02);
  EXPECT_NEAR(v.generated_deviation.value, 0.1, 0.01);
  EXPECT_GT(report.classes[0].spectrum_error, 4 * report.classes[0].spectrum_error_floor);
  EXPECT_EQ(report.accuracy_real, 1.0);
}

TEST(Evaluation, ReportsAsJsonTableAndPicture) {
  const Evaluation evaluation(small_model(), small_evaluation());
  const EvaluationReport report = evaluation.compare(2.0);
  const auto json = nlohmann::json::parse(to_json(report));
  EXPECT_EQ(json.at("size"), 16);
  EXPECT_EQ(json.at("guidance"), 2.0);
  EXPECT_EQ(json.at("classes").at(1).at("name"), "maze");
  EXPECT_TRUE(json.at("classes").at(1).at("channels").at("v").at("real_mean").at("error").is_number());
  EXPECT_THAT(to_markdown(report), HasSubstr("| maze |"));
  const Image sheet = comparison_sheet(evaluation.held_out(), report);
  EXPECT_EQ(sheet.width, 2 * (2 * 16 + 4) + 16);
  EXPECT_EQ(sheet.height, 2 * 16 + 4);
}

TEST(Evaluation, MisuseNamesWhatIsWrong) {
  const auto refusal = [](const auto& change) {
    EvaluateOptions options = small_evaluation();
    LoadedModel model = small_model();
    change(options, model);
    return misuse_of([&] { check(options, model.config); });
  };
  using O = EvaluateOptions;
  using M = LoadedModel;
  EXPECT_EQ(refusal([](O& o, M&) { o.per_class = 1; }), "fields per class = 1: expected at least 2");
  EXPECT_EQ(refusal([](O& o, M&) { o.steps = 0; }), "steps = 0: expected at least 1");
  EXPECT_EQ(refusal([](O& o, M&) { o.simulation_steps = 0; }), "simulation steps = 0: expected at least 1");
  EXPECT_EQ(refusal([](O& o, M&) { o.size = 18; }),
            "size = 18: expected at least 8 pixels, a multiple of the patch, 4");
  EXPECT_EQ(refusal([](O&, M& m) { m.config.class_names[1] = "cats"; }),
            "class 1 = cats: expected the regime maze");
  EXPECT_EQ(refusal([](O& o, M&) { o.regimes.pop_back(); }), "classes = 2: expected one per regime, 1");
  EXPECT_EQ(refusal([](O&, M& m) { m.config.channels.pop_back(); }),
            "channels = 1: expected 2: u and v of Gray-Scott fields");
  const Evaluation evaluation(small_model(), small_evaluation());
  EXPECT_THAT(misuse_of([&] { (void)evaluation.compare(-1); }), HasSubstr("guidance = -1"));
  EXPECT_THAT(misuse_of([&] { (void)evaluation.compare(std::nan("")); }), HasSubstr("guidance = nan"));
}

}  // namespace
}  // namespace dit::gray_scott
