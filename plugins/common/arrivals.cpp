#include "common/arrivals.hpp"

#include <algorithm>

#include "common/mpi_error.hpp"

namespace dit {
namespace {

constexpr int kTag = 1;

}  // namespace

void Arrivals::begin(MPI_Comm comm) {
  check_mpi(MPI_Comm_dup(comm, &comm_), "MPI_Comm_dup");
  check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
}

// A communicator that is freed may come again as another one, which must not get what is still on its way.
Arrivals::~Arrivals() {
  if (settled_) MPI_Comm_free(&comm_);
}

void Arrivals::ask(int channel) {
  ++question_;
  std::fill(answers_.begin(), answers_.end(), std::nullopt);
  for (int peer = 0; peer < static_cast<int>(answers_.size()); ++peer)
    if (peer != rank_) send({question_, channel, 0, 0}, peer);
}

// Synchronous sends: what is complete has been received.
void Arrivals::send(const Notice& notice, int to) {
  Sent& sent = sent_.emplace_back(Sent{notice, MPI_REQUEST_NULL});
  check_mpi(MPI_Issend(&sent.notice, sizeof sent.notice, MPI_BYTE, to, kTag, comm_, &sent.request),
            "MPI_Issend");
}

void Arrivals::forget_sent() {
  for (auto sent = sent_.begin(); sent != sent_.end();) {
    int done = 0;
    check_mpi(MPI_Test(&sent->request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    sent = done != 0 ? sent_.erase(sent) : std::next(sent);
  }
}

std::optional<Arrivals::Notice> Arrivals::receive(int& from) {
  int there = 0;
  MPI_Status status;
  check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, kTag, comm_, &there, &status), "MPI_Iprobe");
  if (there == 0) return std::nullopt;
  Notice notice{};
  from = status.MPI_SOURCE;
  check_mpi(MPI_Recv(&notice, sizeof notice, MPI_BYTE, from, kTag, comm_, MPI_STATUS_IGNORE), "MPI_Recv");
  return notice;
}

void Arrivals::serve(const std::vector<std::uint64_t>& started) {
  if (!sent_.empty()) forget_sent();
  int from = 0;
  while (const auto notice = receive(from)) {
    if (notice->is_answer == 0) {
      const auto channel = static_cast<std::size_t>(notice->channel);
      send({notice->question, notice->channel, channel < started.size() ? started[channel] : 0, 1}, from);
    } else if (notice->question == question_) {
      answers_[static_cast<std::size_t>(from)] = notice->started;
    }
  }
}

bool Arrivals::all_answered() const {
  return std::count(answers_.begin(), answers_.end(), std::nullopt) <= 1;  // the rank itself
}

std::string Arrivals::missing(std::uint64_t number) const {
  std::string text;
  for (int peer = 0; peer < static_cast<int>(answers_.size()); ++peer) {
    const auto& answer = answers_[static_cast<std::size_t>(peer)];
    if (peer == rank_ || (answer && *answer >= number)) continue;
    text += (text.empty() ? "rank " : ", rank ") + std::to_string(peer);
    text += !answer
                ? " (no sign of it)"
                : " (has started " + std::to_string(*answer) + (*answer == 1 ? " exchange)" : " exchanges)");
  }
  return text;
}

bool Arrivals::settle() {
  if (settled_) return true;
  forget_sent();
  int from = 0;
  while (receive(from)) {
  }
  if (!in_barrier_) {
    if (!sent_.empty()) return false;
    check_mpi(MPI_Ibarrier(comm_, &barrier_), "MPI_Ibarrier");
    in_barrier_ = true;
  }
  int done = 0;
  check_mpi(MPI_Test(&barrier_, &done, MPI_STATUS_IGNORE), "MPI_Test");
  settled_ = done != 0;
  return settled_;
}

}  // namespace dit
