/// @file
/// Which GPU, or tile of one, a rank drives: the device list of the node, and the variables with which
/// launchers give each rank its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "topology/cuda_devices.hpp"
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

/// What else is known of this process and CUDA.
struct CudaView {
  std::vector<CudaGpu> gpus;  ///< those that it may use; empty when that is not known
  std::string problem;        ///< why it is not
  std::string current;        ///< PCI address of the one that it uses already; "" when it uses none
};

struct ChosenGpu {
  Gpu gpu;              ///< gpu.gpu is -1 when it is not known
  std::string problem;  ///< why it is not, though CUDA_VISIBLE_DEVICES is set
};

/// The device that the environment gives to this rank: CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES or
/// HIP_VISIBLE_DEVICES, ZE_AFFINITY_MASK (with ZE_FLAT_DEVICE_HIERARCHY) when they name exactly one device:
/// of CUDA's by any name that visible_gpus() knows, of the others' by number. Where CUDA shows several, it is
/// the one that the process uses already. Without one of them it is not known: a program on a node with GPUs
/// may still be one for CPUs.
[[nodiscard]] ChosenGpu chosen_gpu(const std::vector<GpuEntry>& list, const Environment& environment,
                                   const CudaView& cuda);

/// Whether one of these variables is set, so that chosen_gpu() may name a device.
[[nodiscard]] bool names_gpu(const Environment& environment);

}  // namespace tapa
