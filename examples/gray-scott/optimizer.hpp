/// Weights under training: the vector itself, its optimiser, its average, and the file that carries them to
/// another run.
#pragma once

#include <ATen/ATen.h>
#include <torch/optim/adamw.h>

#include <filesystem>

namespace dit::gray_scott {

/// Where a schedule stands.
struct SchedulePoint {
  std::int64_t step = 0;
  double progress = 0;
};

class TrainedWeights {
 public:
  /// `flat` becomes the leaf that gradients are collected for.
  TrainedWeights(at::Tensor flat, double average_decay);

  [[nodiscard]] const at::Tensor& flat() const { return flat_; }
  [[nodiscard]] const at::Tensor& average() const { return average_; }
  /// One step along the gradient that backward() left, its norm cut to `clip`.
  void step(double learning_rate, double clip);

  void save(const std::filesystem::path& file, const SchedulePoint& point) const;
  /// Throws std::runtime_error when the file belongs to other weights.
  [[nodiscard]] SchedulePoint load(const std::filesystem::path& file);

 private:
  [[nodiscard]] torch::optim::AdamWParamState& adam_state() const;

  at::Tensor flat_;
  at::Tensor average_;
  double average_decay_;
  std::int64_t steps_ = 0;
  mutable torch::optim::AdamW adam_;
};

}  // namespace dit::gray_scott
