#include "comm/mean_block.hpp"

#include <bit>

#include "autotune/autotuner.hpp"
#include "run/error.hpp"

namespace tapa {

// The sum is started at calls 0, 1, 2, 4, 8, ... and every 16th. Call 0 waits for its own sum, later ones for
// that of an earlier call, which is complete as a rule: what is agreed costs no round trip.
bool MeanBlock::agree(MPI_Comm comm, int size, std::size_t own_bytes, std::size_t& mean) {
  if (!sum_) sum_ = std::make_unique<Sum>();
  const auto start = [&] {
    sum_->own = own_bytes;
    check_mpi(PMPI_Iallreduce(&sum_->own, &sum_->total, 1, MPI_UINT64_T, MPI_SUM, comm, &sum_->request),
              "MPI_Iallreduce");
    pending_ = true;
  };
  if (calls_ == 0 && !pending_) start();
  if (pending_) {
    if (!sum_->test()) return false;
    pending_ = false;
    const auto blocks = static_cast<std::uint64_t>(size) * static_cast<std::uint64_t>(size);
    mean_ = size_class_of(static_cast<std::size_t>(sum_->total / blocks));
  }
  mean = mean_;
  if (calls_ > 0 && (std::has_single_bit(calls_) || calls_ % 16 == 0)) start();
  ++calls_;
  return true;
}

void MeanBlock::note(std::optional<std::uint64_t> bytes, int size) {
  if (!bytes) {
    ++by_mpi_;
    return;
  }
  shared_ = *bytes / (static_cast<std::uint64_t>(size) * static_cast<std::uint64_t>(size));
  by_mpi_ = 0;
}

bool MeanBlock::Sum::test() {
  int complete = 0;
  check_mpi(PMPI_Test(&request, &complete, MPI_STATUS_IGNORE), "MPI_Iallreduce");
  return complete != 0;
}

MeanBlock::Sum::~Sum() {
  if (request != MPI_REQUEST_NULL) PMPI_Wait(&request, MPI_STATUS_IGNORE);
}

}  // namespace tapa
