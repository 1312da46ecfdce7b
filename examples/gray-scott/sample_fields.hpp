/// Many fields at once from a model on one device: Euler steps of the flow, guidance in one batch.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "models/pixel_dit.hpp"

namespace dit::gray_scott {

struct SampleOptions {
  std::int64_t size = 128;
  int steps = 50;
  double guidance = 2.0;  ///< 1: the conditional branch only
  std::uint64_t seed = 0;
  std::int64_t batch = 96;  ///< fields at once of 128x128, fewer of larger ones
};
/// One field per label, in model units, fp32, on the device of the model's weights. labels: [count].
[[nodiscard]] at::Tensor sample_fields(const PixelDit& model, const at::Tensor& labels,
                                       const SampleOptions& options);

}  // namespace dit::gray_scott
