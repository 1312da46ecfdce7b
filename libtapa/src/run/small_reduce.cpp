#include "run/small_reduce.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "run/error.hpp"

namespace tapa {

namespace {

std::uint64_t combined(Combine how, std::uint64_t a, std::uint64_t b) {
  switch (how) {
    case Combine::sum:
      return a + b;
    case Combine::max:
      return std::max(a, b);
    default:
      return a & b;
  }
}

}  // namespace

void SmallReduce::start(const MessageSpace& space, int tag, int rank, int ranks,
                        std::span<const std::uint64_t> numbers, std::span<const Combine> how) {
  give_up();
  if (run_ == nullptr) run_ = std::make_unique<Run>();
  run_->comm = space.comm;
  run_->in_world.assign(space.in_world.begin(), space.in_world.end());
  run_->tag = tag;
  run_->rank = rank;
  run_->ranks = ranks;
  run_->how.assign(how.begin(), how.end());
  run_->own.assign(numbers.begin(), numbers.end());
  run_->other.assign(numbers.size(), 0);
  run_->stage = Stage::up;
  run_->bit = 1;
  run_->sends.clear();
}

void SmallReduce::receive(int from, std::vector<std::uint64_t>& to) const {
  check_mpi(PMPI_Irecv(to.data(), static_cast<int>(to.size()), MPI_UINT64_T,
                       run_->in_world[static_cast<std::size_t>(from)], run_->tag, run_->comm, &run_->receive),
            "MPI_Irecv");
}

void SmallReduce::send(int to) const {
  check_mpi(PMPI_Isend(run_->own.data(), static_cast<int>(run_->own.size()), MPI_UINT64_T,
                       run_->in_world[static_cast<std::size_t>(to)], run_->tag, run_->comm,
                       &run_->sends.emplace_back(MPI_REQUEST_NULL)),
            "MPI_Isend");
}

bool SmallReduce::received() const {
  int complete = 0;
  check_mpi(PMPI_Test(&run_->receive, &complete, MPI_STATUS_IGNORE), "MPI_Irecv");
  return complete != 0;
}

bool SmallReduce::sent() const {
  int complete = 0;
  check_mpi(
      PMPI_Testall(static_cast<int>(run_->sends.size()), run_->sends.data(), &complete, MPI_STATUSES_IGNORE),
      "MPI_Isend");
  if (complete != 0) run_->sends.clear();
  return complete != 0;
}

void SmallReduce::combine() const {
  for (std::size_t i = 0; i < run_->own.size(); ++i)
    run_->own[i] = combined(run_->how[i], run_->own[i], run_->other[i]);
}

/// Takes what comes from below; true when all of it is there, and what came of it is on its way up.
bool SmallReduce::climb() const {
  Run& r = *run_;
  for (; r.bit < r.ranks && (r.rank & r.bit) == 0; r.bit *= 2) {
    if (r.rank + r.bit >= r.ranks) continue;
    if (r.receive == MPI_REQUEST_NULL) receive(r.rank + r.bit, r.other);
    if (!received()) return false;
    combine();
  }
  if (r.rank != 0) send(r.rank - r.bit);
  return true;
}

bool SmallReduce::test() {
  Run& r = *run_;
  if (r.stage == Stage::up) {
    if (!climb()) return false;
    r.stage = Stage::wait;
  }
  if (r.stage == Stage::wait) {
    if (!sent()) return false;  // the result comes where that lay
    if (r.rank != 0) {
      if (r.receive == MPI_REQUEST_NULL) receive(r.rank - r.bit, r.own);
      if (!received()) return false;
    }
    for (int bit = r.bit / 2; bit > 0; bit /= 2) {
      if (r.rank + bit < r.ranks) send(r.rank + bit);
    }
    r.stage = Stage::down;
  }
  if (r.stage == Stage::down) {
    if (!sent()) return false;
    r.stage = Stage::done;
  }
  return true;
}

void SmallReduce::give_up() {
  if (!pending()) return;
  for (MPI_Request& request : run_->sends) {
    if (request != MPI_REQUEST_NULL) PMPI_Request_free(&request);
  }
  if (run_->receive != MPI_REQUEST_NULL) PMPI_Request_free(&run_->receive);
  // Never freed, and where leak detectors find all of them.
  static std::mutex mutex;
  static auto* const kept = new std::unique_ptr<Run>;
  const std::lock_guard lock(mutex);
  run_->next = std::move(*kept);
  *kept = std::move(run_);
}

}  // namespace tapa
