/// @file
/// MPI's own all-to-all beside a call, for the report.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "run/arguments.hpp"
#include "run/error.hpp"
#include "run/mpi_call.hpp"
#include "run/on_all_ranks.hpp"
#include "run/own_mpi.hpp"

namespace tapa {

/// Bytes of all blocks.
[[nodiscard]] inline std::uint64_t total_bytes(const std::vector<Block>& blocks) {
  std::uint64_t bytes = 0;
  for (const Block& block : blocks) bytes += block.bytes;
  return bytes;
}

/// Runs it with the same bytes between the same ranks, in dense blocks of its own. Seconds; nothing where
/// memory is missing. Ranks begin and go on together, so that waiting for a late one counts for neither.
/// Collective over the program's `comm`, in the call's turn. Throws CallError.
[[nodiscard]] inline std::optional<double> sample_mpi(const Exchange& exchange, MPI_Comm comm) {
  // More than this is not copied for a comparison.
  constexpr std::uint64_t most_bytes = std::uint64_t{1} << 30;
  static_assert(most_bytes <= static_cast<std::uint64_t>(std::numeric_limits<int>::max()));
  struct Side {  // as MPI_Alltoallv wants it, in bytes
    explicit Side(const std::vector<Block>& blocks) {
      int at = 0;
      for (const Block& block : blocks) {
        counts.push_back(static_cast<int>(block.bytes));
        displs.push_back(at);
        at += counts.back();
      }
      data.resize(static_cast<std::size_t>(at) + 1);
    }
    std::vector<int> counts;
    std::vector<int> displs;
    std::vector<std::byte> data;
  };
  std::uint64_t most = std::max(total_bytes(exchange.send), total_bytes(exchange.recv));
  if (!exchange.uniform)  // else all ranks know
    check_mpi(PMPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_UINT64_T, MPI_MAX, comm), "MPI_Allreduce");
  if (most > most_bytes) return std::nullopt;
  std::optional<Side> send;
  std::optional<Side> recv;
  const auto make_room = [&] {
    send.emplace(exchange.send);
    recv.emplace(exchange.recv);
  };
  if (!on_all_ranks(comm, make_room)) return std::nullopt;
  const double begin = PMPI_Wtime();
  if (exchange.uniform) {
    check_mpi(call_mpi_bytes(send->data.data(), recv->data.data(), exchange.uniform_bytes, comm),
              "MPI_Alltoall");
  } else {
    check_mpi(TAPA_OWN_MPI(PMPI_Alltoallv)(send->data.data(), send->counts.data(), send->displs.data(),
                                           MPI_BYTE, recv->data.data(), recv->counts.data(),
                                           recv->displs.data(), MPI_BYTE, comm),
              "MPI_Alltoallv");
  }
  const double seconds = PMPI_Wtime() - begin;
  check_mpi(PMPI_Barrier(comm), "MPI_Barrier");
  return seconds;
}

}  // namespace tapa
