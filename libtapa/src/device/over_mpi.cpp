// A device communicator of the ranks of an MPI communicator.
#include "device/over_mpi.hpp"

#include <mpi.h>

#include <memory>
#include <string>
#include <utility>

#include "device/create.hpp"
#include "device/device_error.hpp"
#include "device/mpi_messenger.hpp"
#include "run/error.hpp"
#include "run/on_all_ranks.hpp"
#include "run/private_comm.hpp"
#include "tapa/device_mpi.h"

using namespace tapa::device;

namespace {

struct OwnComm {
  MPI_Comm comm = MPI_COMM_NULL;
  OwnComm() = default;
  OwnComm(const OwnComm&) = delete;
  OwnComm& operator=(const OwnComm&) = delete;
  ~OwnComm() {
    int finalised = 0;
    PMPI_Finalized(&finalised);
    if (finalised == 0 && comm != MPI_COMM_NULL) PMPI_Comm_free(&comm);
  }
};

/// A communicator of the ranks of one of the program's, whose error handler is not for what fails here. All
/// ranks have it, or none.
std::shared_ptr<MPI_Comm> own_comm(MPI_Comm of) {
  MPI_Comm made = MPI_COMM_NULL;
  if (const int code = tapa::make_private_comm(of, &made); code != MPI_SUCCESS)
    throw DeviceError(TAPA_DEVICE_ERR_ARG, "MPI_Comm_create: " + tapa::mpi_error_text(code));
  std::shared_ptr<OwnComm> own;
  if (!tapa::on_all_ranks(made, [&] { own = std::make_shared<OwnComm>(); })) {
    PMPI_Comm_free(&made);
    throw DeviceError(TAPA_DEVICE_ERR_MEMORY, "a rank has no memory for a communicator");
  }
  own->comm = made;
  return {own, &own->comm};
}

int allgather_over_mpi(void* context, const void* mine, void* all, std::size_t bytes) {
  const int count = static_cast<int>(bytes);
  return PMPI_Allgather(mine, count, MPI_BYTE, all, count, MPI_BYTE, *static_cast<MPI_Comm*>(context));
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

constexpr const char* kFunction = "TAPA_Device_comm_create_mpi";

int create(std::shared_ptr<MPI_Comm> ranks, const TAPA_Device_options* options, TAPA_Device_comm* comm) {
  int rank = 0;
  int size = 0;
  PMPI_Comm_rank(*ranks, &rank);
  PMPI_Comm_size(*ranks, &size);
  MessageOffer offer;
  const int code = contained(kFunction, [&] {
    offer.why_not = why_no_messages();
    if (offer.why_not.empty()) offer.make = [ranks] { return MpiMessenger::of(*ranks); };
  });
  if (code != TAPA_DEVICE_SUCCESS) offer = {nullptr, "no memory"};  // the others wait in what follows
  return create_communicator(kFunction, rank, size, allgather_over_mpi, std::move(ranks), offer, options,
                             comm);
}

}  // namespace

int tapa::device::create_on_own_comm(std::shared_ptr<MPI_Comm> own, const TAPA_Device_options* options,
                                     TAPA_Device_comm* comm) {
  return create(std::move(own), options, comm);
}

extern "C" int TAPA_Device_comm_create_mpi(MPI_Comm mpi_comm, const TAPA_Device_options* options,
                                           TAPA_Device_comm* comm) {
  std::shared_ptr<MPI_Comm> ranks;
  const int code = contained(kFunction, [&] {
    check_communicator(mpi_comm);
    ranks = own_comm(mpi_comm);
  });
  return code == TAPA_DEVICE_SUCCESS ? create(std::move(ranks), options, comm) : code;
}
