#include "run/private_comm.hpp"

#include <atomic>
#include <mutex>

#include "run/error.hpp"
#include "tapa/errors_return.hpp"

namespace tapa {

namespace {
std::mutex alone_mutex;
std::atomic<MPI_Comm> alone{MPI_COMM_NULL};

template <class Make>
int make(MPI_Comm of, MPI_Comm* made, const Make& from_group) {
  MPI_Group group = MPI_GROUP_NULL;
  if (const int code = PMPI_Comm_group(of, &group); code != MPI_SUCCESS) return code;
  const int code = from_group(group);
  PMPI_Group_free(&group);
  return code == MPI_SUCCESS ? PMPI_Comm_set_errhandler(*made, errors_return()) : code;
}
}  // namespace

int make_private_comm(MPI_Comm of, MPI_Comm* made) {
  return make(of, made, [&](MPI_Group group) { return PMPI_Comm_create(of, group, made); });
}

int make_private_comm(MPI_Comm of, MPI_Comm parent, int tag, MPI_Comm* made) {
  return make(of, made, [&](MPI_Group group) { return PMPI_Comm_create_group(parent, group, tag, made); });
}

MPI_Comm alone_comm() {
  if (const MPI_Comm made = alone.load(std::memory_order_acquire); made != MPI_COMM_NULL) return made;
  const std::lock_guard lock(alone_mutex);
  MPI_Comm made = alone.load(std::memory_order_relaxed);
  if (made != MPI_COMM_NULL) return made;
  check_mpi(make_private_comm(MPI_COMM_SELF, &made), "MPI_Comm_create");
  alone.store(made, std::memory_order_release);
  return made;
}

void free_alone_comm() {
  const std::lock_guard lock(alone_mutex);
  MPI_Comm made = alone.exchange(MPI_COMM_NULL);
  if (made != MPI_COMM_NULL) PMPI_Comm_free(&made);
}

}  // namespace tapa
