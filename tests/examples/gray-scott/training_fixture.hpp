/// What tests of training share: a folder of their own, words of errors, small options.
#pragma once

#include <filesystem>

#include "../../dit/message_of.hpp"
#include "../../dit/test_folder.hpp"
#include "trainer.hpp"

namespace dit::gray_scott {

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

}  // namespace dit::gray_scott
