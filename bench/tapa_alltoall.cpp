// Latency of TAPA_Alltoall, with the options and columns of osu_alltoall.
#include "common/blocks.hpp"
#include "common/driver.hpp"
#include "tapa/tapa.h"

namespace {

using namespace tapa::bench;

class Alltoall final : public BlockExchange {
 public:
  using BlockExchange::BlockExchange;

  int call_tapa(MPI_Comm comm) override {
    return TAPA_Alltoall(send(), count(), MPI_CHAR, recv(), count(), MPI_CHAR, comm);
  }
  // In a race MPI itself is meant, even when a drop-in has taken over MPI_Alltoall.
  int call_mpi(MPI_Comm comm) override {
    const auto call = options().use_mpi ? MPI_Alltoall : PMPI_Alltoall;
    return call(send(), count(), MPI_CHAR, recv(), count(), MPI_CHAR, comm);
  }
};

}  // namespace

int main(int argc, char** argv) {
  return run_latency(
      {Kind::alltoall, "tapa_alltoall", "All-to-All Personalized Exchange Latency Test",
       "coll_tuned_alltoall_algorithm",
       [](MPI_Comm comm, const Options& options) { return std::make_unique<Alltoall>(comm, options); }},
      argc, argv);
}
