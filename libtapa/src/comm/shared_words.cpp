#include "comm/shared_words.hpp"

#include <new>

#include "run/error.hpp"

namespace tapa {

bool SharedWords::open(MPI_Comm comm) {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
  constexpr MPI_Aint bytes = 128;  // two processors' lines: neighbours fetch both
  int rank = 0;
  int ranks = 0;
  PMPI_Comm_rank(comm, &rank);
  PMPI_Comm_size(comm, &ranks);
  void* base = nullptr;
  int good = PMPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, comm, static_cast<void*>(&base), &window_) ==
             MPI_SUCCESS;
  if (good != 0) own_ = new (base) std::atomic<std::uint64_t>[2] {};
  for (int peer = 0; good != 0 && peer < ranks; ++peer) {
    MPI_Aint size = 0;
    int unit = 0;
    if (peer == rank) continue;
    good = PMPI_Win_shared_query(window_, peer, &size, &unit, static_cast<void*>(&base)) == MPI_SUCCESS;
    of_rank_.push_back(static_cast<const std::atomic<std::uint64_t>*>(base));
  }
  // Also so that everybody's memory is cleared before somebody writes or reads.
  check_mpi(PMPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, comm), "MPI_Allreduce");
  return good != 0;
}

void SharedWords::close() {
  if (window_ != MPI_WIN_NULL) PMPI_Win_free(&window_);
}

}  // namespace tapa
