#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>

#include "trainer.hpp"
#include "training_fixture.hpp"

namespace dit::gray_scott {
namespace {

using testing::HasSubstr;

/// The words with which changed options are refused.
std::string refusal(const std::function<void(TrainOptions&)>& change) {
  const TestFolder folder;
  TrainOptions options = small_options(folder.path());
  change(options);
  return misuse_of([&] { check(options); });
}

TEST(TrainOptions, SmallOnesAreFine) {
  EXPECT_EQ(refusal([](TrainOptions&) {}), "nothing was thrown");
}

TEST(TrainOptions, CourseIsChecked) {
  EXPECT_EQ(refusal([](TrainOptions& o) { o.steps = 0; }), "steps = 0: expected at least 1");
  EXPECT_EQ(refusal([](TrainOptions& o) { o.steps = -3; }), "steps = -3: expected at least 1");
  EXPECT_EQ(refusal([](TrainOptions& o) { o.steps.reset(); }),
            "steps = none: expected steps, minutes or both");
  EXPECT_EQ(refusal([](TrainOptions& o) { o.minutes = 0.0; }), "minutes = 0.000000: expected more than 0");
  EXPECT_EQ(refusal([](TrainOptions& o) { o.minutes = -1.5; }), "minutes = -1.500000: expected more than 0");
  EXPECT_THAT(refusal([](TrainOptions& o) { o.minutes = std::nan(""); }), HasSubstr("minutes = nan"));
  EXPECT_EQ(refusal([](TrainOptions& o) { o.batch = 0; }), "batch = 0: expected at least 1");
  EXPECT_EQ(refusal([](TrainOptions& o) { o.warmup_steps = -1; }), "warm-up steps = -1: expected at least 0");
  EXPECT_EQ(refusal([](TrainOptions& o) { o.log_every = 0; }), "log every = 0: expected at least 1");
  EXPECT_THAT(refusal([](TrainOptions& o) { o.learning_rate = 0; }), HasSubstr("learning rate = 0"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.drop_labels = 1; }), HasSubstr("dropped labels = 1"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.average = 1; }), HasSubstr("average = 1"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.clip = 0; }), HasSubstr("clip = 0"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.mixed_from = 1.1; }), HasSubstr("mixed from = 1.1"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.until = 0; }), HasSubstr("until = 0"));
}

TEST(TrainOptions, DataIsChecked) {
  EXPECT_EQ(refusal([](TrainOptions& o) { o.network.classes = 3; }),
            "classes = 3: expected one per regime, 2");
  EXPECT_EQ(refusal([](TrainOptions& o) { o.network.channels = 3; }), "channels = 3: expected 2: u and v");
  EXPECT_EQ(refusal([](TrainOptions& o) { o.sizes.clear(); }), "sizes = none: expected one or more");
  EXPECT_EQ(refusal([](TrainOptions& o) { o.sizes[0].size = 18; }),
            "size = 18: expected 8 to 1024 pixels, a multiple of the patch, 4");
  EXPECT_EQ(refusal([](TrainOptions& o) { o.sizes[0].per_class = 0; }),
            "fields per class = 0: expected at least 1");
  EXPECT_EQ(refusal([](TrainOptions& o) { o.simulation_steps = 0; }),
            "simulation steps = 0: expected at least 1");
  EXPECT_EQ(refusal([](TrainOptions& o) { o.network.layers = 0; }), "layers = 0: expected at least 1");
}

TEST(TrainOptions, DevicesAreKnownOrRefused) {
  EXPECT_EQ(parse_device("cpu"), at::Device(at::kCPU));
  for (const char* const name : {"tpu", "", "cuda:", "cuda:x", "cuda:-1", "cuda0", "cuda:12345"}) {
    EXPECT_EQ(refusal([&](TrainOptions& o) { o.device = name; }),
              "device = " + std::string(name) + ": expected auto, cpu, cuda or cuda:N");
  }
  EXPECT_THAT(refusal([](TrainOptions& o) { o.device = "cuda:999"; }),
              HasSubstr("device = cuda:999: expected "));
}

TEST(TrainOptions, OutputMustBeAFolder) {
  EXPECT_EQ(refusal([](TrainOptions& o) { o.output.clear(); }), "output = none: expected a folder");
  EXPECT_THAT(refusal([](TrainOptions& o) {
                o.output /= "file";
                std::ofstream(o.output) << "x";
              }),
              HasSubstr("/file: expected a folder that can be made"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.output = "/proc/dit/model"; }),
              HasSubstr("output = /proc/dit/model: expected a folder that can be made"));
}

}  // namespace
}  // namespace dit::gray_scott
