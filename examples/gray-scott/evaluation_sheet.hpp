/// Simulated and generated fields, for the eye.
#pragma once

#include "evaluate.hpp"
#include "profile/image.hpp"

namespace dit::gray_scott {

/// The last channel (v) of a field [channels, size, size] on the CPU.
[[nodiscard]] Image field_picture(const at::Tensor& field);

/// A row per class: four held-out simulated fields (v), then four generated ones.
[[nodiscard]] Image comparison_sheet(const at::Tensor& held_out, const EvaluationReport& report);

}  // namespace dit::gray_scott
