/// Trains PixelDit on simulated Gray-Scott fields: rectified flow, dropped labels, AdamW with a cosine, an
/// average of the weights. The forward code is the one that generates.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gray_scott.hpp"
#include "models/pixel_dit_network.hpp"
#include "weights/model_files.hpp"

namespace dit::gray_scott {

/// Fields of one size. Batches of a larger size hold fewer fields, so that all cost about the same memory.
struct TrainingSize {
  std::int64_t size = 128;       ///< pixels a side
  std::int64_t per_class = 160;  ///< simulated fields
};

struct TrainOptions {
  PixelDitConfig network;  ///< `classes` as many as regimes, two channels
  std::vector<GrayScottRegime> regimes = gray_scott_regimes();
  /// The first is trained on alone until `mixed_from` of the schedule, then all take turns.
  std::vector<TrainingSize> sizes = {{128, 160}, {256, 64}};
  std::int64_t simulation_steps = 8000;
  double mixed_from = 0.7;

  /// One of both, or both (whatever ends first). Minutes count from the call of train, simulation included; a
  /// run ends before they are over, with its weights written.
  std::optional<std::int64_t> steps;
  std::optional<double> minutes;
  std::int64_t batch = 192;  ///< fields of the first size
  double learning_rate = 1e-3;
  std::int64_t warmup_steps = 200;
  double drop_labels = 0.1;  ///< share of labels replaced by the null label
  double average = 0.999;    ///< decay of the average of the weights, which is what is kept
  double clip = 1.0;         ///< largest norm of the gradient
  std::uint64_t seed = 0;
  std::string device = "auto";  ///< auto, cpu, cuda or cuda:N
  bool bf16 = true;             ///< compute in bf16 on CUDA (never on CPUs)
  std::int64_t log_every = 20;  ///< steps

  std::filesystem::path output;  ///< folder that gets config.json and model.safetensors
  /// A schedule cut into several runs: this one goes to `until` of it and keeps its state in `state`; the
  /// next one begins there when the file exists.
  std::filesystem::path state;
  double until = 1.0;
};
/// Throws std::invalid_argument that names the option, its value and what was expected; tries the output
/// folder.
void check(const TrainOptions& options);

struct LossPoint {
  std::int64_t step = 0;
  double progress = 0;  ///< of the whole schedule
  double seconds = 0;   ///< since this run's first step
  double loss = 0;      ///< mean since the last point
  double learning_rate = 0;
};

struct TrainReport {
  std::int64_t first_step = 0;  ///< steps of earlier runs of the schedule
  std::int64_t steps = 0;       ///< after this run
  double simulation_seconds = 0;
  double training_seconds = 0;
  double final_loss = 0;
  std::int64_t parameters = 0;
  std::string device;
  std::vector<LossPoint> log;  ///< of this run
  ModelConfig config;
};
[[nodiscard]] std::string to_json(const TrainReport& report);

/// Called with what happens: a class is simulated, a loss is measured.
struct TrainProgress {
  std::function<void(std::int64_t size, const GrayScottRegime& regime)> simulating;
  std::function<void(const LossPoint&)> trained;
};

/// Errors as check(), and std::runtime_error: a loss that is no number, a simulation that takes the run's
/// time.
TrainReport train(const TrainOptions& options, const TrainProgress& progress = {});

/// "auto", "cpu", "cuda", "cuda:N" -> a device that is there; throws std::invalid_argument.
[[nodiscard]] at::Device parse_device(const std::string& name);

}  // namespace dit::gray_scott
