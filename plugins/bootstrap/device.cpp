#include "bootstrap/device.hpp"

#include "tapa/device.hpp"

namespace dit {
namespace {

std::unique_ptr<DeviceExchange> make(Ranks& ranks, const DeviceSettings& settings) {
  return make_tapa_device(ranks, nullptr, settings);
}

}  // namespace

const BootstrapDevices bootstrap_devices{make, groups_within_reach,
                                         DIT_CAPABILITY_DEVICE_STRIDED | DIT_CAPABILITY_STORES};

}  // namespace dit
