/// @file
/// What times depend on, as short digests. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topology/topology.hpp"

namespace tapa {

/// 16 hexadecimal digits, the same in every process and on every machine.
[[nodiscard]] std::string digest_of(std::string_view text);

/// Of all that plans for these ranks depend on: levels and who is where in them, NICs, cores.
/// `shares_buffers`: the ranks share memory.
[[nodiscard]] std::string topology_digest(const Topology& topology, bool shares_buffers);

/// The settings of MPI's own in an environment (NAME=value strings, ended by null) that decide which of its
/// algorithms and transports carry data, sorted. Left out is what differs from job to job or from rank to
/// rank.
[[nodiscard]] std::vector<std::string> mpi_settings(const char* const* environment);

}  // namespace tapa
