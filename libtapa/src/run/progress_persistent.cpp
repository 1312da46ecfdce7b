// Persistent requests: see progress.hpp for how they work.
#include <algorithm>
#include <utility>

#include "run/handover.hpp"
#include "run/progress_parts.hpp"

namespace tapa {

// Called by MPI when it frees a persistent request, perhaps inside the engine: takes no lock.
int Progress::on_type_freed(MPI_Datatype, int, void* value, void*) {
  static_cast<Persistent*>(value)->freed = true;
  ++instance().freed_;
  return MPI_SUCCESS;
}

std::size_t Progress::free_slot() {
  const auto unused = std::find(persistent_.begin(), persistent_.end(), nullptr);
  const auto slot = static_cast<std::size_t>(unused - persistent_.begin());
  if (unused == persistent_.end()) persistent_.emplace_back();
  return slot;
}

int Progress::prepare(std::unique_ptr<Task> task, MPI_Request* request) {
  if (!always_advances()) return MPI_ERR_UNSUPPORTED_OPERATION;
  const Inside inside(*this);
  if (const int code = make_self(); code != MPI_SUCCESS) return code;
  const std::size_t slot = free_slot();
  auto p = std::make_unique<Persistent>();
  p->task = std::move(task);
  MPI_Datatype type = MPI_DATATYPE_NULL;
  int code = PMPI_Type_dup(MPI_BYTE, &type);
  if (code != MPI_SUCCESS) return code;
  // One byte, not none: Open MPI's requests do not hold on to the type of an empty message.
  code = PMPI_Ssend_init(bytes_.data(), 1, type, 0, static_cast<int>(slot), self_, &p->request);
  if (code == MPI_SUCCESS) {
    code = PMPI_Type_set_attr(type, type_keyval_, p.get());
    if (code != MPI_SUCCESS) PMPI_Request_free(&p->request);
  }
  PMPI_Type_free(&type);
  if (code != MPI_SUCCESS) return code;
  if (p->freed.exchange(false)) --freed_;  // this MPI deletes attributes early: only free() reclaims
  *request = p->request;
  persistent_[slot] = std::move(p);
  ++persistent_count_;
  wake();
  return MPI_SUCCESS;
}

Progress::Persistent* Progress::find(MPI_Request request) {
  for (const auto& p : persistent_) {
    if (p != nullptr && p->request == request && !p->freed) return p.get();
  }
  return nullptr;
}

Progress::State Progress::state(MPI_Request request) {
  if (request == MPI_REQUEST_NULL) return State::unknown;
  const Inside inside(*this);
  find_starts();  // Intel MPI shows a start, a message to this rank itself, to the second probe only
  advance_all();
  const Persistent* p = find(request);
  if (p == nullptr) return State::unknown;
  if (p->active) return State::active;
  return p->failure != MPI_SUCCESS ? State::failed : State::idle;
}

int Progress::start(int count, MPI_Request requests[]) {
  const int code = PMPI_Startall(count, requests);
  poll();
  return code;
}

int Progress::free(MPI_Request* request) {
  const Inside inside(*this);
  Persistent* p = find(*request);
  const int code = PMPI_Request_free(request);
  if (code != MPI_SUCCESS) return code;
  if (p != nullptr && !p->freed.exchange(true)) ++freed_;
  reclaim();
  rest();
  return MPI_SUCCESS;
}

// The slot of a start that waits for its run, or -1. Starts of active ones stay in the queue until their run
// has ended: only where such a one is in front are the idle ones asked for one by one.
int Progress::next_start() {
  int flag = 0;
  MPI_Status status;
  if (PMPI_Iprobe(0, MPI_ANY_TAG, self_, &flag, &status) != MPI_SUCCESS || flag == 0) return -1;
  const auto waits = [this](std::size_t slot) {
    return persistent_[slot] != nullptr && !persistent_[slot]->active;
  };
  if (waits(static_cast<std::size_t>(status.MPI_TAG))) return status.MPI_TAG;
  for (std::size_t slot = 0; slot < persistent_.size(); ++slot) {
    const int tag = static_cast<int>(slot);
    if (waits(slot) && PMPI_Iprobe(0, tag, self_, &flag, &status) == MPI_SUCCESS && flag != 0) return tag;
  }
  return -1;
}

int Progress::find_starts() {
  int found = 0;
  while (persistent_count_ > active_) {
    const int slot = next_start();
    if (slot < 0) break;
    Persistent& p = *persistent_[static_cast<std::size_t>(slot)];
    ++found;
    take_over();
    p.active = true;
    ++active_;
    p.task->start();
  }
  return found;
}

int Progress::advance_persistent() {
  if (active_ == 0) return 0;
  int ended = 0;
  for (std::size_t slot = 0; slot < persistent_.size(); ++slot) {
    Persistent* p = persistent_[slot].get();
    if (p == nullptr || !p->active || !p->task->advance()) continue;
    p->failure = p->task->result();
    p->active = false;
    --active_;
    ++ended;
    // Completes the program's request. By tag: Open MPI's OFI never ends a synchronous send that a matched
    // probe took.
    MPI_Request receive = MPI_REQUEST_NULL;
    hand_over();
    if (PMPI_Irecv(&sink_, 1, MPI_BYTE, 0, static_cast<int>(slot), self_, &receive) == MPI_SUCCESS) {
      PMPI_Request_free(&receive);
    }
  }
  return ended;
}

void Progress::reclaim() {
  for (auto& p : persistent_) {
    if (p == nullptr || p->active || !p->freed) continue;
    p.reset();
    --persistent_count_;
    --freed_;
  }
}

std::size_t Progress::persistent() {
  const Inside inside(*this);
  return persistent_count_;
}

}  // namespace tapa
