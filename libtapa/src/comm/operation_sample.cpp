// What the report counts: a run, and MPI's own all-to-all beside it.
#include <algorithm>
#include <limits>
#include <vector>

#include "comm/operation.hpp"
#include "run/error.hpp"
#include "run/log.hpp"
#include "run/own_mpi.hpp"

namespace tapa {

namespace {

// More than this is not copied for a comparison.
constexpr std::uint64_t kSampleLimit = std::uint64_t{1} << 30;
static_assert(kSampleLimit <= static_cast<std::uint64_t>(std::numeric_limits<int>::max()));

/// One side as MPI_Alltoallv wants it, in bytes.
struct ByteSide {
  explicit ByteSide(const std::vector<Block>& blocks) {
    int at = 0;
    for (const Block& block : blocks) {
      counts.push_back(static_cast<int>(block.bytes));
      displs.push_back(at);
      at += counts.back();
    }
    data.resize(static_cast<std::size_t>(at) + 1);
  }
  std::vector<int> counts;
  std::vector<int> displs;
  std::vector<std::byte> data;
};

std::uint64_t total(const std::vector<Block>& blocks) {
  std::uint64_t bytes = 0;
  for (const Block& block : blocks) bytes += block.bytes;
  return bytes;
}

}  // namespace

bool Operation::sample_is_due() const {
  return mode_ == Mode::blocking && comm_ != MPI_COMM_NULL && options_->settings().report == Reporting::on &&
         state_->parts()->report.sample_due(function_, bytes_per_pair(), entry_->text);
}

// The same bytes between the same ranks, as dense blocks of memory of its own: the call's result never
// depends on it. The ranks begin together, with MPI's run and then with ours, so that waiting for a late rank
// counts for neither.
void Operation::sample_mpi() {
  const MPI_Comm comm = comm_;  // it is the call's turn on all ranks
  std::uint64_t most = std::max(total(exchange_.send), total(exchange_.recv));
  check_mpi(PMPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_UINT64_T, MPI_MAX, comm), "MPI_Allreduce");
  if (most > kSampleLimit) return;
  ByteSide send(exchange_.send);
  ByteSide recv(exchange_.recv);
  check_mpi(PMPI_Barrier(comm), "MPI_Barrier");
  const double begin = PMPI_Wtime();
  if (exchange_.uniform) {
    const auto bytes = static_cast<int>(exchange_.uniform_bytes);
    check_mpi(TAPA_OWN_MPI(PMPI_Alltoall)(send.data.data(), bytes, MPI_BYTE, recv.data.data(), bytes,
                                          MPI_BYTE, comm),
              "MPI_Alltoall");
  } else {
    check_mpi(TAPA_OWN_MPI(PMPI_Alltoallv)(send.data.data(), send.counts.data(), send.displs.data(), MPI_BYTE,
                                           recv.data.data(), recv.counts.data(), recv.displs.data(), MPI_BYTE,
                                           comm),
              "MPI_Alltoallv");
  }
  mpi_seconds_ = PMPI_Wtime() - begin;
  check_mpi(PMPI_Barrier(comm), "MPI_Barrier");
  started_ = PMPI_Wtime();
}

LeftToMpi Operation::left_to_mpi() const {
  LeftToMpi left{state_.get(), state_->mpi_is_forced(), true};
  left.tried = tried_.has_value();
  if (tried_) left.key = *tried_;
  left.sent = total(exchange_.send);
  left.uniform = exchange_.uniform;
  left.bytes = bytes_per_pair();
  return left;
}

namespace {

/// Why MPI has carried a call out.
std::string reason_for_mpi(const LeftToMpi& left, const Settings& settings) {
  if (!settings.enable) return "TAPA_ENABLE=0";
  if (left.as_made) return "TAPA_PLAN=mpi";
  return left.tried ? "tried in comparison" : "MPI is the fastest";
}

}  // namespace

void note_mpis(const LeftToMpi& left, const char* function, double seconds) {
  CommState& state = *left.state;
  if (left.tried) state.record_probe(left.key, seconds, left.sent);
  const auto options = state.options();
  const Settings& settings = options->settings();
  const auto parts = state.parts();
  if (!left.uniform) parts->mean.note(std::nullopt, state.size());
  const std::size_t own = left.sent / static_cast<std::size_t>(state.size());
  const std::size_t bytes = left.bytes != 0 ? left.bytes : own;
  if (settings.report != Reporting::off)
    parts->report.count(function, bytes, "mpi", reason_for_mpi(left, settings), left.sent, seconds,
                        std::nullopt);
  if (!settings.explain || state.rank() != 0) return;
  Decision decision{{}, "mpi", left.tried ? kProbed : reason_for_mpi(left, settings), 0};
  decision.choice.algorithm = Algorithm::mpi;
  const auto entry =
      parts->chooser.plan_for("mpi", decision, Counts::uniform(state.size(), bytes), {&bytes, 1}, bytes);
  if (!entry->explained.exchange(true)) print_line(explanation(*entry, function, state.size(), seconds));
}

void Operation::report_run() {
  const double seconds = PMPI_Wtime() - started_;
  std::optional<Sample> sample;
  if (mpi_seconds_) sample = Sample{seconds, *mpi_seconds_};
  const std::uint64_t sent = total(exchange_.send);
  // Where the ranks had no reason to agree on a mean this rank's own does.
  const std::size_t bytes =
      bytes_per_pair() != 0 ? bytes_per_pair() : sent / static_cast<std::size_t>(state_->size());
  state_->parts()->report.count(function_, bytes, entry_->text, {}, sent, seconds, sample);
}

}  // namespace tapa
