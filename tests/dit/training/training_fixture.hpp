/// What tests of training share: a folder of their own, small options, the words of an error.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <exception>
#include <filesystem>
#include <string>

#include "training/trainer.hpp"

namespace dit {

/// An empty folder that is gone after the test.
class ScratchFolder {
 public:
  ScratchFolder() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(testing::TempDir()) / ("dit-" + std::string(test->test_suite_name()) + "-" +
                                                         test->name() + "-" + std::to_string(::getpid()));
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline PixelDitConfig small_network(std::int64_t classes) {
  PixelDitConfig network;
  network.width = 32;
  network.heads = 4;
  network.head_dim = 8;
  network.layers = 2;
  network.classes = classes;
  return network;
}

/// Two classes of a few fields of 16x16: a run takes parts of a second.
inline TrainOptions small_options(const std::filesystem::path& output) {
  TrainOptions options;
  options.regimes = {gray_scott_regimes()[0], gray_scott_regimes()[5]};
  options.network = small_network(2);
  options.sizes = {{16, 3}};
  options.simulation_steps = 100;
  options.steps = 5;
  options.batch = 8;
  options.learning_rate = 3e-3;
  options.warmup_steps = 2;
  options.log_every = 5;
  options.device = "cpu";
  options.output = output;
  return options;
}

template <typename Error, typename Body>
std::string message_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace dit
