/// Device memory by libtapa's device engine.
#pragma once

#include "common/device_exchange.hpp"

namespace dit {

/// As MakeDeviceExchange.
[[nodiscard]] std::unique_ptr<DeviceExchange> make_tapa_device(MPI_Comm comm, const PluginConfig& config,
                                                               const DeviceSettings& settings);

}  // namespace dit
