#include "run/world.hpp"

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <numeric>

#include "run/error.hpp"

namespace tapa {

namespace {
constinit std::atomic<bool> ends{false};
}

void end_world() {
  ends.store(true, std::memory_order_relaxed);
}

bool world_ends() {
  return ends.load(std::memory_order_relaxed);
}

bool world_began() {
  static constinit std::atomic<bool> began{false};
  if (began.load(std::memory_order_relaxed)) return true;
  int initialized = 0;
  PMPI_Initialized(&initialized);
  if (initialized != 0) began.store(true, std::memory_order_relaxed);
  return initialized != 0;
}

bool world_runs() {
  int finalized = 0;
  PMPI_Finalized(&finalized);
  return finalized == 0 && world_began();
}

int size_of(MPI_Comm comm) {
  int size = 0;
  check_mpi(PMPI_Comm_size(comm, &size), "MPI_Comm_size");
  return size;
}

int rank_in(MPI_Comm comm) {
  int rank = 0;
  check_mpi(PMPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  return rank;
}

int largest_tag() {
  int* upper = nullptr;
  int found = 0;
  check_mpi(PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&upper), &found),
            "MPI_Comm_get_attr");
  return found != 0 ? *upper : 32767;
}

std::vector<int> ranks_in(MPI_Comm of, MPI_Comm comm) {
  const int size = size_of(comm);
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Group wanted = MPI_GROUP_NULL;
  check_mpi(PMPI_Comm_group(comm, &group), "MPI_Comm_group");
  check_mpi(PMPI_Comm_group(of, &wanted), "MPI_Comm_group");
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<int> there = ranks;
  // Duplicates have the same group, and MPI compares each rank with each.
  const int code = group == wanted
                       ? MPI_SUCCESS
                       : PMPI_Group_translate_ranks(group, size, ranks.data(), wanted, there.data());
  PMPI_Group_free(&group);
  PMPI_Group_free(&wanted);
  check_mpi(code, "MPI_Group_translate_ranks");
  return there;
}

std::vector<int> ranks_in_world(MPI_Comm comm) {
  return ranks_in(MPI_COMM_WORLD, comm);
}

bool is_of_this_world(MPI_Comm comm) {
  const std::vector<int> there = ranks_in_world(comm);
  return std::ranges::find(there, MPI_UNDEFINED) == there.end();
}

}  // namespace tapa
