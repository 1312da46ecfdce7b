/// @file
/// What NVML knows of a node's GPUs. Its library is loaded for the time of the question.
#pragma once

#include <string>
#include <vector>

#include "topology/cuda_devices.hpp"
#include "topology/gpu_links.hpp"
#include "topology/topology.hpp"

namespace tapa {

/// The GPUs of this node with what joins them; empty where there are none, or no NVML. `report` says which.
/// `library`: its file, for tests.
[[nodiscard]] std::vector<GpuLinks> ask_nvml(SourceReport& report, const char* library = "libnvidia-ml.so.1");

/// The GPUs that this process may use, by the names that CUDA_VISIBLE_DEVICES may give them; containers and
/// batch systems may hide others that /sys shows. Empty where there are none, or no NVML: then `why` says so.
[[nodiscard]] std::vector<CudaGpu> cuda_gpus(std::string& why, const char* library = "libnvidia-ml.so.1");

}  // namespace tapa
