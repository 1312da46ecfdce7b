#include "comm/mean_block.hpp"

#include <bit>

#include "autotune/autotuner.hpp"
#include "run/error.hpp"

namespace tapa {

// The sum is started at calls 0, 1, 2, 4, 8, ... and every 16th. Call 0 waits for its own sum, later ones for
// that of an earlier call, which is complete as a rule: what is agreed costs no round trip.
bool MeanBlock::agree(MPI_Comm comm, int size, std::size_t own_bytes, std::size_t& mean) {
  const auto start = [&] {
    own_ = own_bytes;
    check_mpi(PMPI_Iallreduce(&own_, &total_, 1, MPI_UINT64_T, MPI_SUM, comm, &request_), "MPI_Iallreduce");
    pending_ = true;
  };
  if (calls_ == 0 && !pending_) start();
  if (pending_) {
    int complete = 0;
    check_mpi(PMPI_Test(&request_, &complete, MPI_STATUS_IGNORE), "MPI_Iallreduce");
    if (complete == 0) return false;
    pending_ = false;
    const auto blocks = static_cast<std::uint64_t>(size) * static_cast<std::uint64_t>(size);
    mean_ = size_class_of(static_cast<std::size_t>(total_ / blocks));
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

void MeanBlock::finish() {
  if (request_ != MPI_REQUEST_NULL) PMPI_Wait(&request_, MPI_STATUS_IGNORE);
}

}  // namespace tapa
