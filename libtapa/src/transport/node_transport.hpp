/// @file
/// The transport that the library runs on: shared memory inside the node, MPI across nodes, and one way of
/// waiting for both that leaves the cores to ranks that have work when ranks outnumber cores.
#pragma once

#include <memory>

#include "transport/mpi_transport.hpp"
#include "transport/shm_node.hpp"

namespace tapa {

/// How a blocked rank waits.
enum class WaitPolicy : std::uint8_t {
  spin,   ///< polls without pause: every rank has a core
  yield,  ///< gives the core away between polls
  sleep   ///< sleeps on the node's doorbell when only ranks of its own node can wake it, else yields
};

class NodeTransport final : public Transport {
 public:
  /// `node` may be null: then everything goes through MPI. It is borrowed, as `comm` is.
  /// Messages to peers of the node that are longer than `shm_limit` bytes go through MPI too; both ends
  /// decide alike.
  /// `piece` is MpiTransport's.
  NodeTransport(MPI_Comm comm, ShmNode* node, std::size_t shm_limit, std::size_t piece, WaitPolicy policy);

  ~NodeTransport() override;
  NodeTransport(const NodeTransport&) = delete;
  NodeTransport& operator=(const NodeTransport&) = delete;

  void reserve(int slots) override;
  void post_send(int slot, int peer, int tag, std::span<const std::byte> data) override;
  void post_recv(int slot, int peer, int tag, std::span<std::byte> data) override;
  void poll(std::vector<int>& completed, bool block) override;

 private:
  [[nodiscard]] bool through_memory(int peer, std::size_t bytes) const {
    return node_ != nullptr && bytes <= shm_limit_ && node_->has(peer);
  }
  bool poll_once(std::vector<int>& completed);
  void drive_mpi();
  void pause(int idle);

  MPI_Comm comm_;
  MpiTransport mpi_;
  ShmNode* node_;
  std::size_t shm_limit_;
  WaitPolicy policy_;
  std::vector<int> done_;      // completions from the node, not yet reported
  std::size_t in_memory_ = 0;  // messages in flight through the node
  std::size_t in_mpi_ = 0;     // messages in flight through MPI
  unsigned quiet_ = 0;         // polls since MPI was last driven
};

}  // namespace tapa
