// A device communicator of the ranks of an MPI communicator.
#include <mpi.h>

#include <cstring>
#include <memory>

#include "device/create.hpp"
#include "device/device_error.hpp"
#include "device/mpi_messenger.hpp"
#include "run/error.hpp"
#include "tapa/device_mpi.h"

using namespace tapa::device;

namespace {

/// The handle itself, a pointer or an integer, so that nothing has to be kept for it.
void* to_context(MPI_Comm comm) {
  void* context = nullptr;
  static_assert(sizeof(MPI_Comm) <= sizeof(void*));
  std::memcpy(&context, &comm, sizeof(MPI_Comm));
  return context;
}

int allgather_over_mpi(void* context, const void* mine, void* all, std::size_t bytes) {
  MPI_Comm comm = MPI_COMM_NULL;
  std::memcpy(&comm, &context, sizeof(MPI_Comm));
  const int count = static_cast<int>(bytes);
  const tapa::QuietErrors quiet(comm);
  return PMPI_Allgather(mine, count, MPI_BYTE, all, count, MPI_BYTE, comm);
}

void check_communicator(MPI_Comm comm) {
  int initialised = 0;
  PMPI_Initialized(&initialised);
  if (initialised == 0)
    throw DeviceError(TAPA_DEVICE_ERR_ARG, "MPI is not initialised, expected MPI_Init before");
  if (comm == MPI_COMM_NULL) {
    throw DeviceError(TAPA_DEVICE_ERR_ARG, "mpi_comm is MPI_COMM_NULL, expected an intracommunicator");
  }
  int inter = 0;
  PMPI_Comm_test_inter(comm, &inter);
  if (inter != 0) {
    throw DeviceError(TAPA_DEVICE_ERR_ARG, "mpi_comm is an intercommunicator, expected an intracommunicator");
  }
}

}  // namespace

extern "C" int TAPA_Device_comm_create_mpi(MPI_Comm mpi_comm, const TAPA_Device_options* options,
                                           TAPA_Device_comm* comm) {
  const int code = contained("TAPA_Device_comm_create_mpi", [&] { check_communicator(mpi_comm); });
  if (code != TAPA_DEVICE_SUCCESS) return code;
  int rank = 0;
  int size = 0;
  PMPI_Comm_rank(mpi_comm, &rank);
  PMPI_Comm_size(mpi_comm, &size);
  MessageOffer offer;
  offer.why_not = why_no_messages();
  if (offer.why_not.empty()) offer.make = [mpi_comm] { return std::make_unique<MpiMessenger>(mpi_comm); };
  return create_communicator("TAPA_Device_comm_create_mpi", rank, size, allgather_over_mpi,
                             to_context(mpi_comm), offer, options, comm);
}
