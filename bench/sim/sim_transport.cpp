#include "sim_transport.hpp"

#include <smpi/smpi.h>

namespace tapa::sim {

namespace {

// The simulator's time for a wait grows with the requests. Of a large exchange only so many receives are
// looked at, the oldest, unless steps wait for them: they are noticed a little later than they arrive.
constexpr std::size_t kLookedAt = 32;

}  // namespace

SimTransport::SimTransport(MPI_Comm comm, int rank, const RankPlan& plan, const World& world)
    : comm_(comm),
      rank_(rank),
      world_(world),
      awaited_(plan.steps.size()),
      most_looked_at_(world.job.topology.ranks > kFewRanks ? kLookedAt : plan.steps.size()) {
  for (const std::uint32_t dep : plan.deps) awaited_[dep] = true;
  costs_.reserve(plan.steps.size());
  for (const Step& step : plan.steps) costs_.push_back(world.rates.step + receiving(step));
}

/// What the simulator leaves to us of receiving a message.
double SimTransport::receiving(const Step& step) const {
  const bool ours = world_.charges_receives && step.kind == StepKind::recv &&
                    step.bytes <= world_.job.parameters.eager && step.peer != rank_;
  return ours ? message_seconds(world_, rank_, step.peer, step.bytes) : 0;
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

void SimTransport::look_at() {
  looked_at_.clear();
  place_.clear();
  std::size_t others = 0;
  for (std::size_t i = 0; i < first_.size(); ++i) {
    if (!awaited_[static_cast<std::size_t>(first_slot_[i])] && others++ >= most_looked_at_) continue;
    looked_at_.push_back(first_[i]);
    place_.push_back(i);
  }
}

/// Only waits: the simulated ranks take turns, so one that polled would stop the clock.
void SimTransport::poll(std::vector<int>& completed, bool) {
  pay();
  if (!first_.empty()) {
    look_at();
    int index = 0;
    MPI_Waitany(static_cast<int>(looked_at_.size()), looked_at_.data(), &index, MPI_STATUS_IGNORE);
    const std::size_t at = place_[static_cast<std::size_t>(index)];
    completed.push_back(first_slot_[at]);
    owed_ += costs_[static_cast<std::size_t>(first_slot_[at])];
    first_.erase(first_.begin() + static_cast<std::ptrdiff_t>(at));
    first_slot_.erase(first_slot_.begin() + static_cast<std::ptrdiff_t>(at));
  } else if (!last_.empty()) {
    MPI_Wait(&last_.back(), MPI_STATUS_IGNORE);
    completed.push_back(last_slot_.back());
    last_.pop_back();
    last_slot_.pop_back();
  }
}

}  // namespace tapa::sim
