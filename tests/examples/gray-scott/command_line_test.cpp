// The program as users run it: every way to misuse it, with the exact line of the error; what field writes.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "commands.hpp"
#include "gray_scott.hpp"
#include "profile/image.hpp"
#include "training_fixture.hpp"
#include "weights/safetensors.hpp"

namespace dit::gray_scott {
namespace {

struct Outcome {
  int status = 0;
  std::string said;
};

Outcome outcome_of(std::vector<std::string> words) {
  std::vector<const char*> arguments = {"gray-scott"};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  testing::internal::CaptureStderr();
  const int status = run(static_cast<int>(arguments.size()), arguments.data());
  return {status, testing::internal::GetCapturedStderr()};
}

void refused(std::vector<std::string> words, const std::string& line) {
  const Outcome outcome = outcome_of(words);
  EXPECT_EQ(outcome.said, "gray-scott: " + line + "\n");
  EXPECT_EQ(outcome.status, 2) << line;
}

const std::string kWhole = "expected a whole number from ";

TEST(CommandLine, NeedsACommand) {
  refused({}, "no command, expected one of train, evaluate, field");
}

TEST(CommandLine, TrainIsRefusedByName) {
  const TestFolder folder;
  const auto train = [&](std::vector<std::string> words, const std::string& line) {
    words.insert(words.begin(), {"train", "-o", (folder / "trained").string()});
    refused(words, line);
  };
  train({}, "steps = none: expected steps, minutes or both");
  train({"--steps", "0"}, "--steps: \"0\", " + kWhole + "1 to 1000000000");
  train({"--steps", "many"}, "--steps: \"many\", " + kWhole + "1 to 1000000000");
  train({"--seed", "-1"}, "--seed: \"-1\", " + kWhole + "0 to 9223372036854775807");
  train({"--sizes", "128"}, "--sizes 128: expected PIXELS:FIELDS, such as 128:160");
  train({"--steps", "1", "--sizes", "130:4"},
        "size = 130: expected 8 to 1024 pixels, a multiple of the patch, 4");
  train({"--learning-rate", "nan"}, "--learning-rate: \"nan\", expected a number from 1e-12 to 100");
  train({"--heads", "0"}, "--heads: \"0\", " + kWhole + "1 to 65536");
  train({"--log", "/nonexistent/l"}, "--log /nonexistent/l: there is no folder /nonexistent");
  train({"--state", "-"}, "--state -: only text goes to the standard output, expected a file");
}

TEST(CommandLine, EvaluateIsRefusedByName) {
  refused({"evaluate", "--size", "0"}, "--size: \"0\", " + kWhole + "8 to 1024");
  refused({"evaluate", "--fields", "99999999999"}, "--fields: \"99999999999\", " + kWhole + "2 to 100000");
  refused({"evaluate", "--guidance", "1.5,-1"}, "--guidance: \"-1\", expected a number from 0 to 1000");
  refused({"evaluate", "--sheet", "sheet.gif"},
          "--sheet sheet.gif: a PNG is written, expected a name that ends in .png");
  refused({"evaluate", "--markdown", "/nonexistent/m"},
          "--markdown /nonexistent/m: there is no folder /nonexistent");
}

TEST(CommandLine, FieldIsRefusedByName) {
  refused({"field"}, "nothing to write: expected -o FILE or --save");
  refused({"field", "--size", "7", "-o", "x.png"}, "--size: \"7\", " + kWhole + "8 to 1024");
  refused({"field", "--device", "abacus", "-o", "x.png"},
          "device = abacus: expected auto, cpu, cuda or cuda:N");
  const Outcome outcome = outcome_of({"field", "--class", "dots", "-o", "x.png"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.said.find("gray-scott: --class is \"dots\", expected one of spots, mitosis, "), 0U)
      << outcome.said;
}

TEST(CommandLine, FieldWritesWhatIsSimulated) {
  const TestFolder folder;
  const std::string picture = (folder / "maze.png").string();
  const std::string numbers = (folder / "maze.safetensors").string();
  const Outcome outcome = outcome_of({"field", "--class", "maze", "--size", "24", "--simulation-steps", "50",
                                      "--seed", "3", "--device", "cpu", "-o", picture, "--save", numbers});
  EXPECT_EQ(outcome.status, 0) << outcome.said;
  GrayScottOptions options;
  options.size = 24;
  options.steps = 50;
  options.seed = 3;
  const at::Tensor expected = simulate_gray_scott({"maze", 0.029, 0.057}, 1, options, at::kCPU);
  EXPECT_TRUE(at::equal(SafetensorsFile(numbers).tensor("fields"), expected));
  EXPECT_EQ(read_png(picture).image.width, 24);
}

}  // namespace
}  // namespace dit::gray_scott
