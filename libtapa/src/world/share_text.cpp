#include "world/share_text.hpp"

#include <cstdint>
#include <limits>

#include "run/error.hpp"
#include "world/world.hpp"

namespace tapa {

std::string share_text(std::string own, MPI_Comm comm) {
  std::uint64_t bytes = own.size();
  check_mpi(PMPI_Bcast(&bytes, 1, MPI_UINT64_T, 0, comm), "MPI_Bcast");
  if (bytes > std::uint64_t{std::numeric_limits<int>::max()})
    throw SetupError(MPI_ERR_INTERN, "what rank 0 shares exceeds 2 GiB");
  own.resize(bytes);
  check_mpi(PMPI_Bcast(own.data(), static_cast<int>(bytes), MPI_BYTE, 0, comm), "MPI_Bcast");
  return own;
}

}  // namespace tapa
