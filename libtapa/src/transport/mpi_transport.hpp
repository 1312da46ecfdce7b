/// @file
/// Messages as MPI point-to-point messages on a communicator of the library's own.
#pragma once

#include <mpi.h>

#include "transport/transport.hpp"

namespace tapa {

/// Moves messages with MPI_Isend and MPI_Irecv. The communicator is borrowed and must outlive the transport;
/// its error handler must be MPI_ERRORS_RETURN, so that failures come back as TransportError.
class MpiTransport final : public Transport {
 public:
  explicit MpiTransport(MPI_Comm comm) : comm_(comm) {}

  void reserve(int slots) override;
  void post_send(int slot, int peer, int tag, std::span<const std::byte> data) override;
  void post_recv(int slot, int peer, int tag, std::span<std::byte> data) override;
  void poll(std::vector<int>& completed, bool block) override;

 private:
  void track(int slot, MPI_Request request);

  MPI_Comm comm_;
  std::vector<MPI_Request> active_;  // requests in flight, dense
  std::vector<int> slot_of_;         // slot of each entry of active_
  std::vector<int> indices_;         // output of MPI_Testsome
  std::vector<MPI_Status> statuses_;
};

}  // namespace tapa
