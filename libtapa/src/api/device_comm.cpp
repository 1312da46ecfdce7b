// The entry point that makes a device communicator of the ranks of an MPI communicator.
#include <mpi.h>

#include <memory>

#include "api/entry.hpp"
#include "device/device_error.hpp"
#include "device/over_mpi.hpp"
#include "run/on_all_ranks.hpp"
#include "run/private_comm.hpp"
#include "tapa/device_mpi.h"
#include "world/world.hpp"

using namespace tapa;
using device::DeviceError;

namespace {

void free_own(MPI_Comm* comm) {
  int finalised = 0;
  PMPI_Finalized(&finalised);
  if (finalised == 0 && *comm != MPI_COMM_NULL) PMPI_Comm_free(comm);
  delete comm;
}

/// Made of the library's own where the ranks have one: what fails here is not for the program's handler.
int make_own_comm(MPI_Comm of, MPI_Comm* made) {
  std::shared_ptr<CommState> state;
  try {
    state = ready_state(of);
  } catch (const SetupError&) {  // all ranks know
    return make_private_comm(of, made);
  }
  const Membership& membership = state->membership;
  return make_private_comm(of, membership.world->comm, static_cast<int>(*membership.context), made);
}

/// A communicator of the ranks of one of the program's. All ranks have it, or none.
std::shared_ptr<MPI_Comm> own_comm(MPI_Comm of) {
  MPI_Comm made = MPI_COMM_NULL;
  if (const int code = make_own_comm(of, &made); code != MPI_SUCCESS)
    throw DeviceError(TAPA_DEVICE_ERR_ARG, "making a communicator: " + mpi_error_text(code));
  std::shared_ptr<MPI_Comm> own;
  if (!on_all_ranks(made, [&] { own.reset(new MPI_Comm(MPI_COMM_NULL), free_own); })) {
    PMPI_Comm_free(&made);
    throw DeviceError(TAPA_DEVICE_ERR_MEMORY, "a rank has no memory for a communicator");
  }
  *own = made;
  return own;
}

void check_communicator(MPI_Comm comm) {
  int initialised = 0;
  PMPI_Initialized(&initialised);
  if (initialised == 0)
    throw DeviceError(TAPA_DEVICE_ERR_ARG, "MPI is not initialised, expected MPI_Init before");
  int inter = 0;
  if (comm != MPI_COMM_NULL) PMPI_Comm_test_inter(comm, &inter);
  if (comm == MPI_COMM_NULL || inter != 0)
    throw DeviceError(TAPA_DEVICE_ERR_ARG,
                      words("mpi_comm is ", inter != 0 ? "an intercommunicator" : "MPI_COMM_NULL",
                            ", expected an intracommunicator"));
}

}  // namespace

extern "C" int TAPA_Device_comm_create_mpi(MPI_Comm mpi_comm, const TAPA_Device_options* options,
                                           TAPA_Device_comm* comm) {
  std::shared_ptr<MPI_Comm> ranks;
  const int code = device::contained("TAPA_Device_comm_create_mpi", [&] {
    check_communicator(mpi_comm);
    ranks = own_comm(mpi_comm);
  });
  return code == TAPA_DEVICE_SUCCESS ? device::create_on_own_comm(ranks, options, comm) : code;
}
