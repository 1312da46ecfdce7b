// A device communicator of the ranks of an MPI communicator.
#include "device/over_mpi.hpp"

#include <mpi.h>

#include <memory>

#include "device/create.hpp"
#include "device/device_error.hpp"
#include "device/mpi_messenger.hpp"

using namespace tapa::device;

namespace {

int allgather_over_mpi(void* context, const void* mine, void* all, std::size_t bytes) {
  const int count = static_cast<int>(bytes);
  return PMPI_Allgather(mine, count, MPI_BYTE, all, count, MPI_BYTE, *static_cast<MPI_Comm*>(context));
}

constexpr const char* kFunction = "TAPA_Device_comm_create_mpi";

}  // namespace

int tapa::device::create_on_own_comm(const std::shared_ptr<MPI_Comm>& ranks,
                                     const TAPA_Device_options* options, TAPA_Device_comm* comm) {
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
  return create_communicator(kFunction, rank, size, allgather_over_mpi, ranks, offer, options, comm);
}
