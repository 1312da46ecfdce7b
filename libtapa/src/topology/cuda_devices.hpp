/// @file
/// Which GPUs are CUDA's devices 0, 1, ... of a process, without starting CUDA. Pure: what the driver knows
/// comes from nvml_source.hpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tapa {

/// A GPU that this process may use.
struct CudaGpu {
  std::string pci;                 ///< PCI address, "0000:18:00.0"
  std::string model;               ///< GPUs with the same one are equally fast; "" when unknown
  std::string uuid;                ///< "GPU-8f3c5d1e-...", as nvidia-smi -L shows it; "" when unknown
  bool divided = false;            ///< in MIG mode
  std::vector<std::string> parts;  ///< UUIDs of its MIG devices, "MIG-..."
};

/// What CUDA_VISIBLE_DEVICES makes of them.
struct VisibleGpus {
  std::vector<std::string> known;  ///< PCI addresses of devices 0, 1, ..., as far as they can be told
  std::string unknown;  ///< why those behind them, if there are any, cannot be told; "" when these are all
  bool operator==(const VisibleGpus&) const = default;
};

/// `list`: the value of CUDA_VISIBLE_DEVICES, which is set; `order`: that of CUDA_DEVICE_ORDER or "". CUDA's
/// rules are kept where they are documented: numbers or UUIDs, these as short as they are unique; what stands
/// behind an entry that names nothing does not count. Numbers go by PCI address; with an order other than
/// "PCI_BUS_ID" that is known of GPUs of one model alone, as CUDA puts faster ones first by a rule of its
/// own. Not told is what CUDA does with a mixture, with a GPU that is named twice, with a GPU in MIG mode
/// that is not named by one of its parts, and with several parts. Not seen is a list that an MPS server was
/// started with, among whose GPUs its clients' numbers count.
[[nodiscard]] VisibleGpus visible_gpus(std::vector<CudaGpu> gpus, std::string_view list,
                                       std::string_view order);

/// Whether such a list may show exactly one GPU. Needs nothing of them: the driver's libraries take their
/// time to answer. A second entry counts where it has the form of a name, also where there is no GPU of that
/// name.
[[nodiscard]] bool may_show_one(std::string_view list);

}  // namespace tapa
