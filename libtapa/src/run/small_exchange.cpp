#include "run/small_exchange.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <string>
#include <utility>

#include "run/error.hpp"

namespace tapa {

namespace {

/// Numbers that late messages may still read or write: never freed.
struct Kept {
  std::vector<std::size_t> outgoing, incoming;
  Kept* next;
};
std::atomic<Kept*> last_kept{nullptr};  // so that leak detectors can reach all of them

void keep(std::vector<std::size_t> outgoing, std::vector<std::size_t> incoming) {
  auto* const kept = new Kept{std::move(outgoing), std::move(incoming), last_kept.load()};
  while (!last_kept.compare_exchange_weak(kept->next, kept)) {
  }
}

}  // namespace

void SmallExchange::give_up() {
  if (!pending()) return;
  keep(std::move(outgoing_), std::move(incoming_));
  for (MPI_Request& request : requests_) {
    if (request != MPI_REQUEST_NULL) PMPI_Request_free(&request);
  }
  requests_.clear();
}

void SmallExchange::start(const MessageSpace& space, int tag, std::vector<int> members, std::size_t each,
                          std::span<const std::size_t> outgoing, bool same) {
  if (each > static_cast<std::size_t>(std::numeric_limits<int>::max()) / sizeof(std::size_t)) {
    throw CallError(MPI_ERR_INTERN, "exchange of " + std::to_string(each) + " numbers, expected fewer");
  }
  give_up();
  members_ = std::move(members);
  each_ = each;
  outgoing_.assign(outgoing.begin(), outgoing.end());
  incoming_.resize(members_.size() * each);
  requests_.assign(2 * members_.size(), MPI_REQUEST_NULL);
  const auto bytes = static_cast<int>(each * sizeof(std::size_t));
  for (std::size_t i = 0; i < members_.size(); ++i) {
    check_mpi(PMPI_Irecv(incoming_.data() + i * each, bytes, MPI_BYTE, space.rank_of(members_[i]), tag,
                         space.comm, &requests_[i]),
              "MPI_Irecv");
  }
  for (std::size_t i = 0; i < members_.size(); ++i) {
    check_mpi(PMPI_Isend(outgoing_.data() + (same ? 0 : i * each), bytes, MPI_BYTE,
                         space.rank_of(members_[i]), tag, space.comm, &requests_[members_.size() + i]),
              "MPI_Isend");
  }
}

bool SmallExchange::test() {
  int complete = 0;
  check_mpi(
      PMPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &complete, MPI_STATUSES_IGNORE),
      "exchange of counts");
  if (complete != 0) requests_.clear();
  return complete != 0;
}

std::vector<int> SmallExchange::missing(std::size_t limit) const {
  std::vector<int> ranks;
  for (std::size_t i = 0; i < members_.size() && 2 * i < requests_.size() && ranks.size() < limit; ++i) {
    int complete = 0;
    if (requests_[i] != MPI_REQUEST_NULL) PMPI_Request_get_status(requests_[i], &complete, MPI_STATUS_IGNORE);
    if (complete == 0) ranks.push_back(members_[i]);
  }
  return ranks;
}

}  // namespace tapa
