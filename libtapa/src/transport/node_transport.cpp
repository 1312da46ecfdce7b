#include "transport/node_transport.hpp"

namespace tapa {

namespace {
constexpr int kPauses = 50;  // pauses in one blocking poll
}

NodeTransport::NodeTransport(const MessageSpace& space, ShmNode* node, std::size_t shm_limit,
                             std::size_t piece, WaitPolicy policy)
    : space_(space),
      mpi_(space.comm, piece),
      node_(node),
      shm_limit_(shm_limit),
      waiter_(space.comm, node, policy) {}

NodeTransport::~NodeTransport() {
  if (node_ != nullptr && in_memory_ > 0) node_->forget(&done_);
}

void NodeTransport::reserve(int slots) {
  mpi_.reserve(slots);
  done_.reserve(static_cast<std::size_t>(slots));
}

void NodeTransport::post_send(int slot, int peer, int tag, Pieces data) {
  if (through_memory(peer, bytes_of(data))) {
    ++in_memory_;
    node_->send(space_.number_of(peer), tag, data, slot, &done_);
  } else {
    ++in_mpi_;
    mpi_.post_send(slot, space_.rank_of(peer), tag, data);
  }
}

void NodeTransport::post_recv(int slot, int peer, int tag, Pieces data) {
  if (through_memory(peer, bytes_of(data))) {
    ++in_memory_;
    node_->recv(space_.number_of(peer), tag, data, slot, &done_);
  } else {
    ++in_mpi_;
    mpi_.post_recv(slot, space_.rank_of(peer), tag, data);
  }
}

bool NodeTransport::poll_once(std::vector<int>& completed) {
  const std::size_t before = completed.size();
  if (in_memory_ > 0) {
    node_->progress(done_, completed);
    in_memory_ -= completed.size() - before;
  }
  const std::size_t from_memory = completed.size();
  if (in_mpi_ > 0) {
    mpi_.poll(completed, false);
    in_mpi_ -= completed.size() - from_memory;
  } else {
    waiter_.count_quiet_poll();
  }
  return completed.size() > before;
}

// With `block`, gives up after a while all the same, so that the caller can look at its watchdog.
void NodeTransport::poll(std::vector<int>& completed, bool block) {
  for (int idle = 0; !poll_once(completed) && block && idle < kPauses; ++idle)
    waiter_.pause(idle, in_mpi_ == 0, [this] { return node_->progress_for(done_); });
}

}  // namespace tapa
