/// @file
/// Where the ranks of a communicator run. Knows no CUDA.
#pragma once

#include <string>

#include "device/agreement.hpp"
#include "plan/partition.hpp"

namespace tapa::device {

/// Which ranks share a node: processes of one boot of a machine that see each other (containers with process
/// numbers of their own are nodes of their own), and of one TAPA_DEVICE_NODE (an environment variable with
/// any text, so that one machine can stand for several). Collective. Throws DeviceError, on all ranks alike,
/// when two ranks are one process or a node has too many.
[[nodiscard]] Partition agree_on_nodes(const Agreement& agreement);

/// What ranks that share a node have in common.
[[nodiscard]] std::string own_node();

/// What processes have in common that see each other's numbers.
[[nodiscard]] std::string own_processes();

/// What names the machine since its start; "" where the system does not say.
[[nodiscard]] std::string boot_of_machine();

}  // namespace tapa::device
