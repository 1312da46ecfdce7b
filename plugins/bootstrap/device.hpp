/// Device memory of the exchange "bootstrap": of a build with CUDA libtapa's engine, else none.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/device_exchange.hpp"
#include "common/ranks.hpp"

namespace dit {

struct BootstrapDevices {
  /// Collective over ranks that outlive it; all throw PluginFailure when one does. Null: none.
  std::unique_ptr<DeviceExchange> (*make)(Ranks& ranks, const DeviceSettings& settings);
  /// The group of each rank, of those whose devices reach each other. Collective, as make. Null:
  /// none.
  std::vector<int> (*reach)(Ranks& ranks, int device);
  std::uint64_t capabilities;  ///< DIT_CAPABILITY_...
};

extern const BootstrapDevices bootstrap_devices;

}  // namespace dit
