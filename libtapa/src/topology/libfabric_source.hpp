/// @file
/// What libfabric knows: providers, and the attributes of NICs.
#pragma once

#include <vector>

#include "topology/record.hpp"
#include "topology/sysfs.hpp"

namespace tapa {

/// Fills in provider, speed and PCI address of interfaces, adds those that only libfabric knows, and adds the
/// report "libfabric" to the record. With `ask` false, only reports that it was not asked.
void add_libfabric(bool ask, std::vector<Interface>& interfaces, Record& record);

}  // namespace tapa
