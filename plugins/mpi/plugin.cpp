// The exchange "mpi": MPI_Alltoallv, one for each tensor. The baseline.
#include "mpi/flat.hpp"

namespace dit {

namespace {

PluginConfig read(const char* text) {
  PluginConfig config(text, {"progress", "poll_us"});
  check_progress_config(config);
  return config;
}

std::unique_ptr<AllToAll> make(MPI_Comm comm, const PluginConfig&) {
  return make_flat(comm);
}

}  // namespace

extern const AllToAllKind plugin_kind;
const AllToAllKind plugin_kind{"mpi", "one flat MPI_Alltoallv for each exchange", read, make, nullptr, 0};

}  // namespace dit
