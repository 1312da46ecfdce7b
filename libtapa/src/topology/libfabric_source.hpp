/// @file
/// What libfabric knows: providers, and the attributes of NICs.
#pragma once

#include <vector>

#include "topology/record.hpp"
#include "topology/sysfs.hpp"

namespace tapa {

/// Fills in provider, speed and PCI address of interfaces, and adds those that only libfabric knows. Takes
/// 0.3 s of CPU for each process.
[[nodiscard]] SourceReport add_libfabric(std::vector<Interface>& interfaces);

}  // namespace tapa
