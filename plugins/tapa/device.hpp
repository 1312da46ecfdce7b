/// Device memory by libtapa's device engine. No MPI here.
#pragma once

#include <tapa/device.h>

#include <functional>
#include <vector>

#include "common/device_exchange.hpp"
#include "common/ranks.hpp"

namespace dit {

/// Makes the engine on the current device, collective; a code of tapa/device.h. `gather` may be used while
/// the engine lives.
using MakeEngine = std::function<int(TAPA_Device_allgather gather, void* context,
                                     const TAPA_Device_options& options, TAPA_Device_comm* comm)>;

/// Collective over ranks that outlive it; all throw PluginFailure when one does. Without `make_engine` it is
/// TAPA_Device_comm_create.
[[nodiscard]] std::unique_ptr<DeviceExchange> make_tapa_device(Ranks& ranks, const MakeEngine& make_engine,
                                                               const DeviceSettings& settings);

/// The group of each rank, of those whose devices reach each other. Collective; all throw
/// PluginFailure when one does.
[[nodiscard]] std::vector<int> groups_within_reach(Ranks& ranks, int device);

}  // namespace dit
