#include "comm/gather_text.hpp"

#include <numeric>
#include <vector>

#include "run/error.hpp"

namespace tapa {

std::string gather_text(const std::string& own, MPI_Comm comm) {
  int rank = 0;
  int ranks = 0;
  check_mpi(PMPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check_mpi(PMPI_Comm_size(comm, &ranks), "MPI_Comm_size");
  const int bytes = static_cast<int>(own.size());
  std::vector<int> lengths(static_cast<std::size_t>(ranks));
  check_mpi(PMPI_Gather(&bytes, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, comm), "MPI_Gather");
  std::vector<int> begins(lengths.size());
  std::exclusive_scan(lengths.begin(), lengths.end(), begins.begin(), 0);
  std::string all(rank == 0 ? static_cast<std::size_t>(begins.back() + lengths.back()) : 0, '\0');
  check_mpi(
      PMPI_Gatherv(own.data(), bytes, MPI_CHAR, all.data(), lengths.data(), begins.data(), MPI_CHAR, 0, comm),
      "MPI_Gatherv");
  return all;
}

}  // namespace tapa
