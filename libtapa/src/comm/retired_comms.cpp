#include "comm/retired_comms.hpp"

#include <mutex>
#include <utility>
#include <vector>

#include "run/progress.hpp"

namespace tapa {

namespace {

struct Old {
  MPI_Comm comm;
  std::unique_ptr<MeanBlock::Sum> sum;
};

struct Retired {
  std::mutex mutex;
  std::vector<Old> comms;
};

// Never destroyed: MPI may end after static objects do.
Retired& retired() {
  static auto* const instance = new Retired;
  return *instance;
}

void keep(Old old) {
  const std::lock_guard lock(retired().mutex);
  retired().comms.push_back(std::move(old));
}

/// Frees it, or keeps it as long as something is under way.
void free_or_keep(Old old, bool wait) {
  int complete = 1;
  if (old.sum && !wait) PMPI_Test(&old.sum->request, &complete, MPI_STATUS_IGNORE);
  if (complete == 0) return keep(std::move(old));
  old.sum.reset();
  PMPI_Comm_free(&old.comm);
}

}  // namespace

void retire(MPI_Comm comm, std::unique_ptr<MeanBlock::Sum> sum) {
  if (comm == MPI_COMM_NULL) return;
  if (Progress::is_inside()) {
    keep({comm, std::move(sum)});
  } else {
    free_or_keep({comm, std::move(sum)}, false);
  }
}

void free_retired(bool wait) {
  std::vector<Old> comms;
  {
    const std::lock_guard lock(retired().mutex);
    comms = std::exchange(retired().comms, {});
  }
  for (Old& old : comms) free_or_keep(std::move(old), wait);
}

}  // namespace tapa
