/// @file
/// Which GPU, or tile of one, a rank drives: the device list of the node, and the variables with which
/// launchers give each rank its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "topology/record.hpp"

namespace tapa {

enum class GpuVendor { nvidia, amd, intel };

/// One entry of the node's device list, in the order in which the vendor's runtime numbers them.
struct GpuEntry {
  GpuVendor vendor = GpuVendor::nvidia;
  Gpu gpu;
  int tiles = 1;  ///< tiles that the runtime shows below this entry (Level Zero subdevices)
};

/// Value of an environment variable, empty when it is not set.
using Environment = std::function<std::string(const char*)>;

/// The device that the environment gives to this rank: CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES or
/// HIP_VISIBLE_DEVICES, ZE_AFFINITY_MASK (with ZE_FLAT_DEVICE_HIERARCHY) when they name exactly one device by
/// number. Else gpu.gpu is -1: a program on a node with GPUs may still be one for CPUs.
[[nodiscard]] Gpu chosen_gpu(const std::vector<GpuEntry>& list, const Environment& environment);

/// Whether one of these variables is set, so that chosen_gpu() may name a device.
[[nodiscard]] bool names_gpu(const Environment& environment);

}  // namespace tapa
