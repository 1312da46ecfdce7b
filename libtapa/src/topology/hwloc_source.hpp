/// @file
/// What hwloc knows: binding, caches, NUMA, sockets, GPUs, and which NICs are near.
#pragma once

#include "topology/gpu.hpp"
#include "topology/record.hpp"

namespace tapa {

/// Fills in cores, binding, places, GPU and near NICs of the record, and adds the report "hwloc". Honours
/// hwloc's own environment (HWLOC_XMLFILE, HWLOC_COMPONENTS, ...). Returns false, with the reason in the
/// report, when hwloc is not built in or fails. `cuda` is of this machine: of another one, which hwloc was
/// given, the GPUs are hwloc's.
bool add_hwloc(const Environment& environment, const CudaView& cuda, Record& record);

}  // namespace tapa
