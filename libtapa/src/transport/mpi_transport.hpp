/// @file
/// Messages as MPI point-to-point messages on a communicator of the library's own.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <vector>

#include "transport/transport.hpp"

namespace tapa {

/// Moves messages with MPI_Isend and MPI_Irecv. The communicator is borrowed and must outlive the transport;
/// its error handler must be MPI_ERRORS_RETURN, so that failures come back as TransportError. Messages over
/// `piece` bytes travel in pieces (at most 64): over TCP, pieces below MPI's eager limit do not wait for a
/// handshake that stands in line behind other data; and no MPI count exceeds int.
class MpiTransport final : public Transport {
 public:
  static constexpr std::size_t kIntMax = std::size_t{1} << 30;  ///< largest piece

  explicit MpiTransport(MPI_Comm comm, std::size_t piece = kIntMax) : comm_(comm), piece_(piece) {}

  void reserve(int slots) override;
  [[nodiscard]] bool takes_pieces(int, std::size_t) const override { return false; }
  void post_send(int slot, int peer, int tag, Pieces data) override;
  void post_recv(int slot, int peer, int tag, Pieces data) override;
  void poll(std::vector<int>& completed, bool block) override;

 private:
  /// Of a request.
  enum class Expected : std::uint8_t { nothing, bytes, too_much };

  template <typename Post>
  void cut(int slot, std::size_t bytes, Expected expected, const Post& post);
  void complete(std::size_t at, const MPI_Status& status, std::vector<int>& completed);

  MPI_Comm comm_;
  std::size_t piece_;
  std::vector<int> pieces_left_;     // of each slot
  std::vector<MPI_Request> active_;  // requests in flight, dense
  std::vector<int> slot_of_;         // slot of each entry of active_
  std::vector<Expected> expected_;   // likewise
  std::vector<std::uint8_t> empty_;  // of each slot: whether a piece of it came without bytes
  std::vector<int> indices_;         // output of MPI_Testsome
  std::vector<MPI_Status> statuses_;
};

}  // namespace tapa
