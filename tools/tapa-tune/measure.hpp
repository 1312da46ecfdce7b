/// @file
/// Measures a machine for the tuning file, with MPI.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "autotune/tuning_file.hpp"
#include "topology/topology.hpp"

namespace tapa {

/// What is to be measured and how long it may take.
struct TuneRequest {
  double seconds = 40;  ///< all together
  std::vector<std::size_t> sizes{16,   256,   1024,
                                 4096, 16384, 65536};  ///< bytes per pair at which choices are timed
};

/// Told what is being measured, on every rank.
using TuneProgress = std::function<void(const std::string&)>;

/// Latency, bandwidth and message cost of every level, NIC, copy rate and cores: everything but the choices.
/// Collective. Throws std::runtime_error when MPI fails.
[[nodiscard]] Tuning measure_machine(MPI_Comm comm, const Topology& topology, const TuneProgress& progress);

/// Times candidates() through the library's own calls, at each size the most promising ones by `machine`'s
/// figures, as long as `seconds` last. A time is the median over calls of the slowest rank's. Collective.
/// Throws std::runtime_error when a call fails.
[[nodiscard]] std::vector<Measurement> measure_choices(MPI_Comm comm, const Topology& topology,
                                                       const Tuning& machine,
                                                       const std::vector<std::size_t>& sizes, double seconds,
                                                       const TuneProgress& progress);

/// Both, within request.seconds. Collective.
[[nodiscard]] Tuning measure(MPI_Comm comm, const Topology& topology, const TuneRequest& request,
                             const TuneProgress& progress);

}  // namespace tapa
