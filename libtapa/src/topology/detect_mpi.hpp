/// @file
/// Detection over a communicator: blocking.
#pragma once

#include <mpi.h>

#include <functional>
#include <string>
#include <vector>

#include "topology/topology.hpp"

namespace tapa {

/// The topology of the communicator's ranks, the same on all of them. Collective and blocking.
/// With `override_text` (TAPA_TOPOLOGY) rank 0 reads it and sends the result. Otherwise the ranks' records
/// (local_record) are gathered and merged, and MPI's own view (MPI_Comm_split_type) is compared.
/// Throws std::invalid_argument for a bad override, on all ranks alike; std::runtime_error when MPI fails.
[[nodiscard]] Topology detect(MPI_Comm comm, const std::string& override_text);

/// Rank 0's text, on every rank. Collective and blocking. Throws std::runtime_error when MPI fails or the
/// text has more than 2 GiB. `meet` comes before each of MPI's calls, and may throw.
[[nodiscard]] std::string share_text(
    MPI_Comm comm, std::string text, const std::function<void()>& meet = [] {});

/// Every rank's text, on every rank. Collective and blocking. Throws std::runtime_error when MPI fails or the
/// texts have more than 2 GiB together. `meet`: as above.
[[nodiscard]] std::vector<std::string> gather_records(
    MPI_Comm comm, const std::string& mine, const std::function<void()>& meet = [] {});

/// Compares the nodes of `topology` with the ranks that share memory as MPI sees it, and adds the report
/// "mpi". Collective and blocking. Throws std::runtime_error when MPI fails.
void compare_with_mpi(MPI_Comm comm, Topology& topology);

}  // namespace tapa
