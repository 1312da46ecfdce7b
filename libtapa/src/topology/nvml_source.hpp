/// @file
/// What NVML knows of a node's GPUs. Its library is loaded for the time of the question.
#pragma once

#include <vector>

#include "topology/gpu_links.hpp"
#include "topology/topology.hpp"

namespace tapa {

/// The GPUs of this node with what joins them; empty where there are none, or no NVML. `report` says which.
/// `library`: its file, for tests.
[[nodiscard]] std::vector<GpuLinks> ask_nvml(SourceReport& report, const char* library = "libnvidia-ml.so.1");

}  // namespace tapa
