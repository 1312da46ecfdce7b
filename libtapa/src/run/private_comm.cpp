#include "run/private_comm.hpp"

namespace tapa {

int make_private_comm(MPI_Comm of, MPI_Comm* made) {
  MPI_Group group = MPI_GROUP_NULL;
  if (const int code = PMPI_Comm_group(of, &group); code != MPI_SUCCESS) return code;
  const int code = PMPI_Comm_create(of, group, made);
  PMPI_Group_free(&group);
  return code == MPI_SUCCESS ? PMPI_Comm_set_errhandler(*made, MPI_ERRORS_RETURN) : code;
}

}  // namespace tapa
