#include "mpi/node_levels.hpp"

#include "common/agree.hpp"
#include "common/mpi_error.hpp"
#include "common/mpi_ranks.hpp"

namespace dit {

Levels node_levels(MPI_Comm comm) {
  MpiRanks ranks(comm);
  const int rank = ranks.rank();
  std::vector<int> node_of;
  together(ranks, [&] { node_of.resize(static_cast<std::size_t>(ranks.size())); });
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node),
            "MPI_Comm_split_type");
  int first = rank;  // a node's name is its first rank
  int code = MPI_Bcast(&first, 1, MPI_INT, 0, node);
  MPI_Comm_free(&node);
  check_mpi(code, "MPI_Bcast");
  check_mpi(MPI_Allgather(&first, 1, MPI_INT, node_of.data(), 1, MPI_INT, comm), "MPI_Allgather");
  return levels_of_nodes(node_of, rank);
}

}  // namespace dit
