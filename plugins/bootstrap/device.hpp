/// Device memory of the exchange "bootstrap": of a build with CUDA libtapa's engine, else none.
#pragma once

#include <cstdint>
#include <memory>

#include "common/device_exchange.hpp"
#include "common/ranks.hpp"

namespace dit {

struct BootstrapDevices {
  /// Collective over ranks that outlive it; all throw PluginFailure when one does. Null: none.
  std::unique_ptr<DeviceExchange> (*make)(Ranks& ranks, const DeviceSettings& settings);
  std::uint64_t capabilities;  ///< DIT_CAPABILITY_...
};

extern const BootstrapDevices bootstrap_devices;

}  // namespace dit
