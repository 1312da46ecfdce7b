/// Device memory by NCCL.
#pragma once

#include "common/device_exchange.hpp"
#include "common/ranks.hpp"
#include "exchange/plugin_config.hpp"

namespace dit {

/// Collective over ranks that outlive it; all throw PluginFailure when one does. Settings: library=PATH of
/// NCCL, else libnccl.so.2; zero-cta=1 for copy engines: then all ranks' blocks are equal and one after the
/// other, in registered memory of ncclMemAlloc, or NCCL takes its default way.
[[nodiscard]] std::unique_ptr<DeviceExchange> make_nccl_device(Ranks& ranks, const PluginConfig& config,
                                                               const DeviceSettings& settings);

}  // namespace dit
