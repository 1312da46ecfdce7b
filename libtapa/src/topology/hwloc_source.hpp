/// @file
/// What hwloc knows: binding, caches, NUMA, sockets, GPUs, and which NICs are near.
#pragma once

#include "topology/gpu.hpp"
#include "topology/record.hpp"

namespace tapa {

/// Fills in cores, binding, places, GPU and near NICs of the record, and adds the report "hwloc". Honours
/// hwloc's own environment (HWLOC_XMLFILE, HWLOC_COMPONENTS, ...). Returns false, with the reason in the
/// report, when hwloc is not built in or fails.
bool add_hwloc(const Environment& environment, Record& record);

}  // namespace tapa
