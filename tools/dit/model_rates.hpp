/// @file
/// What the cost model needs to know of a model: its shape, and how fast its own code runs here.
#pragma once

#include "engine/engine.hpp"
#include "engine/run_shape.hpp"
#include "predict/machine_rates.hpp"

namespace dit::tool {

/// A forward pass of one unit.
[[nodiscard]] ForwardShape forward_shape(const ModelShape& model, const RunShape& run,
                                         const GenerateOptions& options);

/// From a forward pass on this rank alone.
[[nodiscard]] ComputeRates measure_compute(const LoadedModel& model, const GenerateOptions& options);

}  // namespace dit::tool
