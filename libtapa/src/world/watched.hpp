/// @file
/// What ranks tell each other in their first call on a communicator, with TAPA_TIMEOUT watched: rank 0 hears
/// all and tells all, as MPI's nonblocking allgather would connect all ranks with all.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "run/error.hpp"
#include "run/unfinished.hpp"
#include "run/world.hpp"
#include "world/process_options.hpp"

namespace tapa {

/// Waits for the end of a nonblocking collective; `why()` tells for whom, if it `says` so. Throws CallError.
template <class Why>
void wait_watched(MPI_Request& request, const Why& why, bool says) {
  const double timeout = says ? own_options().settings().timeout : 0;
  if (timeout <= 0) return check_mpi(PMPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
  Watch watch("set-up", timeout);
  for (int complete = 0; complete == 0; watch.look(why))
    check_mpi(PMPI_Test(&request, &complete, MPI_STATUS_IGNORE), "MPI_Test");
}

/// What all ranks tell, in `all` of rank 0, which has room for it. `here`: part of it that is not 0.
/// Collective over `comm`. Whether this is rank 0. Throws CallError.
template <class Told>
bool hear_all(const Told& own, std::uint64_t Told::*here, std::span<Told> all, MPI_Comm comm, bool says) {
  const int rank = rank_in(comm);
  all = all.first(static_cast<std::size_t>(rank == 0 ? size_of(comm) : 0));
  for (Told& told : all) told.*here = 0;
  constexpr int bytes = sizeof own;
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(PMPI_Igather(&own, bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, 0, comm, &request),
            "MPI_Igather");
  wait_watched(
      request,
      [&] {
        std::vector<int> missing;
        for (std::size_t r = 1; r < all.size(); ++r) {
          if (all[r].*here == 0) missing.push_back(static_cast<int>(r));
        }
        return "waits for the other ranks of the communicator to make their first call: " +
               ranks_text(missing);
      },
      says);
  return rank == 0;
}

/// Rank 0 tells all ranks, after hear_all().
inline void tell_all(void* what, std::size_t bytes, MPI_Comm comm, bool says) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(PMPI_Ibcast(what, static_cast<int>(bytes), MPI_BYTE, 0, comm, &request), "MPI_Ibcast");
  wait_watched(
      request,
      [] {
        return "waits for rank 0 of the communicator, which says for whom it waits once it has made its "
               "first call";
      },
      says);
}

}  // namespace tapa
