#include "trainer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "training_fixture.hpp"
#include "weights/safetensors.hpp"

namespace dit::gray_scott {
namespace {

using testing::HasSubstr;

TensorMap weights_in(const std::filesystem::path& folder) {
  return read_checkpoint(folder / "model.safetensors");
}

bool same(const TensorMap& a, const TensorMap& b) {
  return std::all_of(a.begin(), a.end(),
                     [&](const auto& entry) { return at::equal(entry.second, b.at(entry.first)); });
}

TEST(Trainer, LossFalls) {
  const TestFolder folder;
  TrainOptions options = small_options(folder.path());
  options.steps = 60;
  options.log_every = 15;
  std::vector<LossPoint> seen;
  TrainProgress progress;
  progress.trained = [&](const LossPoint& point) { seen.push_back(point); };
  const TrainReport report = train(options, progress);
  ASSERT_EQ(report.log.size(), 4U);
  EXPECT_EQ(seen.size(), 4U);
  EXPECT_EQ(report.log.back().step, 60);
  EXPECT_LT(report.log.back().loss, 0.8 * report.log.front().loss);
  EXPECT_EQ(report.final_loss, report.log.back().loss);
}

TEST(Trainer, ModelIsWrittenInBf16AndReadBack) {
  const TestFolder folder;
  const TrainReport report = train(small_options(folder.path()));
  const LoadedModel model = load_model(folder.path());
  EXPECT_EQ(model.config.class_names, (std::vector<std::string>{"spots", "maze"}));
  EXPECT_EQ(model.config.trained_sizes, (std::vector<std::int64_t>{16}));
  EXPECT_EQ(pixel_dit_config(*model.config.network), small_network(2));
  EXPECT_GT(model.config.channels.at(1).scale, 0.0);
  const SafetensorsFile file(folder.path() / "model.safetensors");
  for (const TensorEntry& entry : file.entries()) {
    EXPECT_EQ(entry.dtype, "BF16") << entry.name;
  }
  const auto bytes =
      static_cast<std::int64_t>(std::filesystem::file_size(folder.path() / "model.safetensors"));
  EXPECT_GT(bytes, 2 * report.parameters);
  EXPECT_LT(bytes, 2 * report.parameters + 16384);
  EXPECT_EQ(file.metadata().at("steps"), "5");
  EXPECT_EQ(file.metadata().at("seed"), "0");
  EXPECT_THAT(file.metadata().at("data"), HasSubstr("2 x 3 fields of 16x16"));
}

TEST(Trainer, DefaultModelFitsIntoSixteenMegabytes) {
  std::int64_t parameters = 0;
  for (const auto& [name, shape] : PixelDit::tensor_shapes(TrainOptions().network)) {
    std::int64_t elements = 1;
    for (const std::int64_t side : shape) {
      elements *= side;
    }
    parameters += elements;
  }
  EXPECT_LT(2 * parameters + 65536, 16'000'000);
}

TEST(Trainer, SeedsNameTheWeights) {
  const TestFolder folder;
  TrainOptions options = small_options(folder.path() / "a");
  (void)train(options);
  options.output = folder.path() / "b";
  (void)train(options);
  options.output = folder.path() / "c";
  options.seed = 1;
  (void)train(options);
  EXPECT_TRUE(same(weights_in(folder.path() / "a"), weights_in(folder.path() / "b")));
  EXPECT_FALSE(same(weights_in(folder.path() / "a"), weights_in(folder.path() / "c")));
}

TEST(Trainer, AllSizesTakeTurnsLate) {
  const TestFolder folder;
  TrainOptions options = small_options(folder.path());
  options.sizes = {{16, 2}, {32, 1}};
  options.mixed_from = 0.4;
  const TrainReport report = train(options);
  EXPECT_EQ(report.config.trained_sizes, (std::vector<std::int64_t>{16, 32}));
  const TensorMap mixed = weights_in(folder.path());
  options.mixed_from = 1.0;
  (void)train(options);
  EXPECT_FALSE(same(mixed, weights_in(folder.path())));
}

TEST(Trainer, ScheduleIsCutIntoRuns) {
  const TestFolder folder;
  TrainOptions options = small_options(folder.path() / "model");
  options.state = folder.path() / "state.safetensors";
  options.until = 0.5;
  const TrainReport first = train(options);
  EXPECT_EQ(first.log.back().progress, 0.5);
  options.until = 1.0;
  options.steps = 4;
  const TrainReport second = train(options);
  EXPECT_EQ(second.first_step, 5);
  EXPECT_EQ(second.steps, 9);
  EXPECT_EQ(second.log.back().progress, 1.0);
  EXPECT_LT(second.log.back().learning_rate, first.log.back().learning_rate);
  EXPECT_EQ(misuse_of([&] { (void)train(options); }),
            "until = 1.0: expected more than what " + options.state.string() + " has reached, 1.0");
}

TEST(Trainer, MinutesEndARunWithItsWeightsWritten) {
  const TestFolder folder;
  TrainOptions options = small_options(folder.path());
  options.steps.reset();
  options.minutes = 0.1;
  const auto start = std::chrono::steady_clock::now();
  const TrainReport report = train(options);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(6));
  EXPECT_GT(report.steps, 0);
  EXPECT_EQ(load_model(folder.path()).config.class_names.size(), 2U);
}

TEST(Trainer, DataThatTakesTheTimeIsRefused) {
  const TestFolder folder;
  TrainOptions options = small_options(folder.path());
  options.minutes = 1e-9;
  EXPECT_THAT(message_of<std::runtime_error>([&] { (void)train(options); }),
              HasSubstr("half of them are over and class spots of size 16 is still to be simulated"));
}

TEST(Trainer, LossThatIsNoNumberEndsTheRun) {
  const TestFolder folder;
  TrainOptions options = small_options(folder.path());
  options.learning_rate = 1e30;
  EXPECT_THAT(message_of<std::runtime_error>([&] { (void)train(options); }),
              HasSubstr("the loss is no number at step 5: expected a lower learning rate"));
}

TEST(Trainer, ReportIsJson) {
  const TestFolder folder;
  const auto json = nlohmann::json::parse(to_json(train(small_options(folder.path()))));
  EXPECT_EQ(json.at("steps"), 5);
  EXPECT_EQ(json.at("device"), "cpu");
  EXPECT_EQ(json.at("log").size(), 1U);
}

}  // namespace
}  // namespace dit::gray_scott
