#include "common/mpi_ranks.hpp"

#include <array>
#include <chrono>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/mpi_error.hpp"

namespace dit {
namespace {

/// Whether it does; `limit` in seconds, 0: none.
bool ends_within(MPI_Request& request, double limit) {
  const auto begun = std::chrono::steady_clock::now();
  for (int done = 0;;) {
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done != 0) return true;
    const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    if (limit > 0 && passed > limit) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

/// MPI may still write there, as nobody waits any more. Reachable to the end of the process, so that it is no
/// leak.
void keep_for_ever(std::unique_ptr<std::array<int, 2>> numbers) {
  static auto* const kept = new std::vector<std::unique_ptr<std::array<int, 2>>>;
  kept->push_back(std::move(numbers));
}

}  // namespace

MpiRanks::MpiRanks(MPI_Comm comm) : comm_(comm) {
  check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
}

MpiRanks::~MpiRanks() {
  if (owned_) MPI_Comm_free(&comm_);
}

void MpiRanks::allgather(const void* mine, void* all, std::size_t bytes) {
  if (bytes > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    throw PluginFailure(DIT_ERROR_UNSUPPORTED,
                        "ranks gather " + std::to_string(bytes) + " bytes of each, expected less than 2 GiB");
  const int count = static_cast<int>(bytes);
  check_mpi(MPI_Allgather(mine, count, MPI_BYTE, all, count, MPI_BYTE, comm_), "MPI_Allgather");
}

std::optional<int> MpiRanks::greatest_within(int mine, double limit) {
  auto numbers = std::make_unique<std::array<int, 2>>(std::array{mine, 0});
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallreduce(&(*numbers)[0], &(*numbers)[1], 1, MPI_INT, MPI_MAX, comm_, &request),
            "MPI_Iallreduce");
  if (ends_within(request, limit)) return (*numbers)[1];
  keep_for_ever(std::move(numbers));
  owned_ = false;
  return std::nullopt;
}

}  // namespace dit
