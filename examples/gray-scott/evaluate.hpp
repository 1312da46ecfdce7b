/// How close generated fields are to simulated ones that the model has not seen.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "field_set.hpp"
#include "field_statistics.hpp"
#include "gray_scott.hpp"
#include "models/pixel_dit_network.hpp"
#include "weights/model_files.hpp"

namespace dit::gray_scott {

struct EvaluateOptions {
  std::vector<GrayScottRegime> regimes = gray_scott_regimes();  ///< named as the model's classes
  std::int64_t size = 128;
  std::int64_t per_class =
      32;  ///< generated, and held-out simulated ones; twice as many teach the classifier
  std::int64_t simulation_steps = 8000;
  std::uint64_t seed = 1000;  ///< of the held-out fields; not that of the training data
  int steps = 50;
  std::string device = "auto";
  bool bf16 = false;  ///< sample in bf16
};
/// Throws std::invalid_argument that names the option, its value and what was expected.
void check(const EvaluateOptions& options, const ModelConfig& model);

/// A statistic over a class's fields: mean, and its standard error.
struct Estimate {
  double value = 0;
  double error = 0;
};
struct ChannelComparison {
  std::string name;
  Estimate real_mean;
  Estimate generated_mean;
  Estimate real_deviation;
  Estimate generated_deviation;
};
struct ClassComparison {
  std::string name;
  std::vector<ChannelComparison> channels;
  double spectrum_error = 0;        ///< of the last channel, to the held-out fields
  double spectrum_error_floor = 0;  ///< of as many other simulated fields
  double accuracy_real = 0;         ///< share of the held-out fields that the classifier names right
  double accuracy_generated = 0;
};
struct EvaluationReport {
  std::int64_t size = 0;
  std::int64_t per_class = 0;
  double guidance = 0;
  int steps = 0;
  double seconds = 0;  ///< of sampling
  double accuracy_real = 0;
  double accuracy_generated = 0;
  std::vector<ClassComparison> classes;
  at::Tensor generated;  ///< [classes * per_class, channels, size, size], physical units, CPU
};
[[nodiscard]] std::string to_json(const EvaluationReport& report);
/// A table for a model card.
[[nodiscard]] std::string to_markdown(const EvaluationReport& report);

/// Simulates once, compares as often as asked.
class Evaluation {
 public:
  Evaluation(const LoadedModel& model, const EvaluateOptions& options);
  [[nodiscard]] EvaluationReport compare(double guidance) const;
  [[nodiscard]] const at::Tensor& held_out() const { return held_out_.fields; }  ///< CPU, physical units

 private:
  [[nodiscard]] ClassComparison compare_class(std::int64_t label, const PerFieldStatistics& generated,
                                              const at::Tensor& named_real,
                                              const at::Tensor& named_generated) const;

  EvaluateOptions options_;
  ModelConfig config_;
  PixelDit model_;
  FieldSet taught_;  ///< to the classifier
  FieldSet held_out_;
  PerFieldStatistics taught_statistics_;
  PerFieldStatistics real_;
  NearestRegime classifier_;
};

}  // namespace dit::gray_scott
