#include "mpi/node_levels.hpp"

#include "common/mpi_error.hpp"

namespace dit {

Levels node_levels(MPI_Comm comm) {
  int rank = 0;
  int size = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node),
            "MPI_Comm_split_type");
  int first = rank;  // a node's name is its first rank
  int code = MPI_Bcast(&first, 1, MPI_INT, 0, node);
  MPI_Comm_free(&node);
  check_mpi(code, "MPI_Bcast");
  std::vector<int> node_of(static_cast<std::size_t>(size));
  check_mpi(MPI_Allgather(&first, 1, MPI_INT, node_of.data(), 1, MPI_INT, comm), "MPI_Allgather");
  return levels_of_nodes(node_of, rank);
}

}  // namespace dit
