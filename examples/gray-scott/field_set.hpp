/// Simulated fields of all classes at one size, and batches of them with the symmetries of the system.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "gray_scott.hpp"
#include "weights/model_files.hpp"

namespace dit::gray_scott {

struct FieldSet {
  at::Tensor fields;  ///< [count, channels, size, size]
  at::Tensor labels;  ///< [count], 64-bit integers
  [[nodiscard]] std::int64_t count() const { return fields.size(0); }
  [[nodiscard]] std::int64_t size() const { return fields.size(3); }
};

/// `per_class` fields of each regime, physical units, labels in the order of `regimes`. `before_class` is
/// called with the number of each class before it is simulated; it may throw.
[[nodiscard]] FieldSet simulate_fields(const std::vector<GrayScottRegime>& regimes, std::int64_t per_class,
                                       const GrayScottOptions& options, at::Device device,
                                       const std::function<void(std::int64_t)>& before_class = {});

/// Mean and standard deviation of each channel ("u", "v"), rounded to four digits as they go into a
/// config.json.
[[nodiscard]] std::vector<ChannelScale> measure_scales(const FieldSet& set);
/// (value - mean) / scale, and back.
[[nodiscard]] at::Tensor to_model_units(const at::Tensor& fields, const std::vector<ChannelScale>& scales);
[[nodiscard]] at::Tensor to_physical_units(const at::Tensor& fields, const std::vector<ChannelScale>& scales);

struct FieldBatch {
  at::Tensor fields;
  at::Tensor labels;
};
/// Random fields of the set, each rolled, flipped and transposed at random: they are periodic and their
/// lattice square. The generator lives on the set's device.
[[nodiscard]] FieldBatch draw_batch(const FieldSet& set, std::int64_t count, at::Generator& generator);
/// A share of the labels becomes `null_label`.
[[nodiscard]] at::Tensor drop_labels(const at::Tensor& labels, double share, std::int64_t null_label,
                                     at::Generator& generator);

/// A generator of its own on a device, seeded.
[[nodiscard]] at::Generator seeded_generator(at::Device device, std::uint64_t seed);

}  // namespace dit::gray_scott
