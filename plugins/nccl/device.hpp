/// Device memory by NCCL.
#pragma once

#include "common/device_exchange.hpp"

namespace dit {

/// As MakeDeviceExchange. Settings: library=PATH of NCCL, else libnccl.so.2; zero-cta=1 for copy engines:
/// then all ranks' blocks are equal and one after the other, in registered memory of ncclMemAlloc, or NCCL
/// takes its default way.
[[nodiscard]] std::unique_ptr<DeviceExchange> make_nccl_device(MPI_Comm comm, const PluginConfig& config,
                                                               const DeviceSettings& settings);

}  // namespace dit
