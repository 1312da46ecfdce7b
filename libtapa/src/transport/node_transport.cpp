#include "transport/node_transport.hpp"

#include <sched.h>

namespace tapa {

namespace {

constexpr int kSpins = 20;     // polls before a rank goes to sleep
constexpr int kPatience = 50;  // pauses in one blocking poll
// Asleep, a rank does not drive MPI; it wakes this often to do so.
constexpr long kSleepMicroseconds = 1000;

constexpr unsigned kQuietPolls = 64;

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

NodeTransport::NodeTransport(MPI_Comm comm, ShmNode* node, std::size_t shm_limit, std::size_t piece,
                             WaitPolicy policy)
    : comm_(comm), mpi_(comm, piece), node_(node), shm_limit_(shm_limit), policy_(policy) {}

NodeTransport::~NodeTransport() {
  if (node_ != nullptr && in_memory_ > 0) node_->forget(&done_);
}

void NodeTransport::reserve(int slots) {
  mpi_.reserve(slots);
  done_.reserve(static_cast<std::size_t>(slots));
}

void NodeTransport::post_send(int slot, int peer, int tag, std::span<const std::byte> data) {
  if (through_memory(peer, data.size())) {
    ++in_memory_;
    node_->send(peer, tag, data, slot, &done_);
  } else {
    ++in_mpi_;
    mpi_.post_send(slot, peer, tag, data);
  }
}

void NodeTransport::post_recv(int slot, int peer, int tag, std::span<std::byte> data) {
  if (through_memory(peer, data.size())) {
    ++in_memory_;
    node_->recv(peer, tag, data, slot, &done_);
  } else {
    ++in_mpi_;
    mpi_.post_recv(slot, peer, tag, data);
  }
}

// MPI may still hold bytes that other nodes wait for, although their sends are complete here.
void NodeTransport::drive_mpi() {
  int flag = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &flag, MPI_STATUS_IGNORE);
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
  } else if (++quiet_ % kQuietPolls == 0) {
    drive_mpi();
  }
  return completed.size() > before;
}

void NodeTransport::pause(int idle) {
  if (policy_ == WaitPolicy::spin) {
    relax();
  } else if (policy_ == WaitPolicy::yield || in_mpi_ > 0) {
    sched_yield();
  } else if (idle < kSpins) {
    relax();
  } else {
    node_->sleep(kSleepMicroseconds);
    drive_mpi();
  }
}

// With `block`, gives up after a while all the same, so that the caller can look at its watchdog.
void NodeTransport::poll(std::vector<int>& completed, bool block) {
  for (int idle = 0; !poll_once(completed) && block && idle < kPatience; ++idle) pause(idle);
}

}  // namespace tapa
