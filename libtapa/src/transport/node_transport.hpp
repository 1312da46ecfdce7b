/// @file
/// The transport that the library runs on: shared memory inside the node, MPI across nodes, and one way of
/// waiting for both that leaves the cores to ranks that have work when ranks outnumber cores.
#pragma once

#include <memory>

#include "transport/message_space.hpp"
#include "transport/mpi_transport.hpp"
#include "transport/shm_node.hpp"
#include "transport/waiter.hpp"

namespace tapa {

class NodeTransport final : public Transport {
 public:
  /// Peers are ranks of the communicator that has `space`. `node` may be null: then everything goes through
  /// MPI. It is borrowed, as what `space` names is. Messages to peers of the node that are longer than
  /// `shm_limit` bytes go through MPI too; both ends decide alike. `piece` is MpiTransport's.
  NodeTransport(const MessageSpace& space, ShmNode* node, std::size_t shm_limit, std::size_t piece,
                WaitPolicy policy);

  ~NodeTransport() override;
  NodeTransport(const NodeTransport&) = delete;
  NodeTransport& operator=(const NodeTransport&) = delete;

  void reserve(int slots) override;
  [[nodiscard]] bool takes_pieces(int peer, std::size_t bytes) const override {
    return through_memory(peer, bytes);
  }
  void post_send(int slot, int peer, int tag, Pieces data) override;
  void post_recv(int slot, int peer, int tag, Pieces data) override;
  void poll(std::vector<int>& completed, bool block) override;

 private:
  [[nodiscard]] bool through_memory(int peer, std::size_t bytes) const {
    return node_ != nullptr && bytes <= shm_limit_ && space_.number_of(peer) >= 0;
  }
  bool poll_once(std::vector<int>& completed);

  MessageSpace space_;
  MpiTransport mpi_;
  ShmNode* node_;
  std::size_t shm_limit_;
  Waiter waiter_;
  std::vector<int> done_;      // completions from the node, not yet reported
  std::size_t in_memory_ = 0;  // messages in flight through the node
  std::size_t in_mpi_ = 0;     // messages in flight through MPI
};

}  // namespace tapa
