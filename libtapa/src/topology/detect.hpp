/// @file
/// Finds out what the machine looks like. Each process describes itself (local_record), the records are
/// exchanged by whoever has a communicator, and every rank merges them to the same topology (merge_records).
/// Without MPI; detect_mpi.hpp has the blocking exchange.
///
/// Environment: TAPA_NIC_RATE (speed of NICs whose own figure is missing or wrong), TAPA_NICS (which NICs are
/// rails).
#pragma once

#include <string>
#include <vector>

#include "topology/record.hpp"
#include "topology/topology.hpp"

namespace tapa {

/// Describes the calling process in a few milliseconds, from /sys and the scheduler. hwloc (10 ms and more of
/// each process) and libfabric (0.3 s) are asked only for what /sys cannot say: which GPU a rank drives and
/// what is near to it; a machine that is described in hwloc's own environment; fabrics whose speed /sys does
/// not know. `thorough` asks them always, for their reports and the facts, which only people read; places
/// and rails are the same either way, but that it tells the GPU of a process that has not loaded CUDA, too.
/// Never throws for what it finds: complaints become notes.
[[nodiscard]] Record describe_process(bool thorough);

/// to_json(describe_process(false)), found once in a process. At most 64 KiB. Thread-safe.
[[nodiscard]] const std::string& local_record();

/// The topology of records.size() ranks, records[r] being the record of rank r. Pure and deterministic: the
/// same on all ranks. Throws std::invalid_argument when a record is malformed ("record of rank 3: ...") or
/// there is none.
///
/// Levels, fast to slow, where they can be known for every rank: "tile" (ranks that drive tiles of one GPU),
/// "l3", "numa", "socket" (ranks bound to cores of one), "node", "rack" (leaf switch), "world". Rails: a rank
/// uses one of the NICs nearest to its device or cores; ranks with the same nearest NICs take them in turn.
[[nodiscard]] Topology merge_records(const std::vector<std::string>& records);
[[nodiscard]] Topology merge_records(const std::vector<Record>& records);

}  // namespace tapa
