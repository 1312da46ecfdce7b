#include "bootstrap/device.hpp"

namespace dit {

const BootstrapDevices bootstrap_devices{nullptr, nullptr, 0};

}  // namespace dit
