/// @file
/// What an all-to-all of buffers in GPU memory costs that the device engine carries out. Pure.
#pragma once

#include <cstddef>
#include <optional>

#include "topology/topology.hpp"

namespace tapa {

/// Predicted seconds of an all-to-all of `bytes` per pair between the ranks' GPUs, as one of many that a
/// stream is given: the engine's own time, and the busiest rank's bytes at the rates of the levels
/// (device_bandwidth); through memory of the host its GPU's link moves both ways at once. Nothing where the
/// topology does not say these, or has more than one node.
[[nodiscard]] std::optional<double> predict_device(const Topology& topology, std::size_t bytes);

}  // namespace tapa
