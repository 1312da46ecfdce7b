/// Simulated and generated fields side by side, for the eye.
#pragma once

#include "profile/image.hpp"
#include "training/evaluate.hpp"

namespace dit {

/// A row per class: four held-out simulated fields (v), then four generated ones.
[[nodiscard]] Image comparison_sheet(const at::Tensor& held_out, const EvaluationReport& report);

}  // namespace dit
