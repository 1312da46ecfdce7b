#include "sim_transport.hpp"

#include <smpi/smpi.h>

namespace tapa::sim {

SimTransport::SimTransport(MPI_Comm comm, const RankPlan& plan, const World& world)
    : comm_(comm), world_(world), awaited_(plan.steps.size()) {
  for (const std::uint32_t dep : plan.deps) awaited_[dep] = true;
}

void SimTransport::reserve(int slots) {
  const auto n = static_cast<std::size_t>(slots);
  first_.reserve(n);
  first_slot_.reserve(n);
  last_.reserve(n);
  last_slot_.reserve(n);
}

void SimTransport::pay() {
  if (owed_ > 0) smpi_execute_benched(owed_);
  owed_ = 0;
}

void SimTransport::copied(std::size_t bytes) {
  owed_ += static_cast<double>(bytes) / world_.rates.copy;
}

void SimTransport::post_send(int slot, int peer, int tag, Pieces data) {
  owed_ += world_.rates.step;
  pay();
  MPI_Request request = MPI_REQUEST_NULL;
  const Piece piece = data.front();
  MPI_Isend(piece.data(), static_cast<int>(piece.size()), MPI_BYTE, peer, tag, comm_, &request);
  const bool awaited = awaited_[static_cast<std::size_t>(slot)];
  (awaited ? first_ : last_).push_back(request);
  (awaited ? first_slot_ : last_slot_).push_back(slot);
}

void SimTransport::post_recv(int slot, int peer, int tag, Pieces data) {
  MPI_Request request = MPI_REQUEST_NULL;
  const Piece piece = data.front();
  MPI_Irecv(piece.data(), static_cast<int>(piece.size()), MPI_BYTE, peer, tag, comm_, &request);
  first_.push_back(request);
  first_slot_.push_back(slot);
}

/// Only waits: the simulated ranks take turns, so one that polled would stop the clock.
void SimTransport::poll(std::vector<int>& completed, bool) {
  pay();
  if (!first_.empty()) {
    int index = 0;
    MPI_Waitany(static_cast<int>(first_.size()), first_.data(), &index, MPI_STATUS_IGNORE);
    const auto at = static_cast<std::size_t>(index);
    completed.push_back(first_slot_[at]);
    owed_ += world_.rates.step;
    first_.erase(first_.begin() + index);
    first_slot_.erase(first_slot_.begin() + index);
  } else if (!last_.empty()) {
    MPI_Wait(&last_.back(), MPI_STATUS_IGNORE);
    completed.push_back(last_slot_.back());
    last_.pop_back();
    last_slot_.pop_back();
  }
}

}  // namespace tapa::sim
