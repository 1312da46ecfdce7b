// Latency of a persistent all-to-all (start and wait), with the options and columns of
// osu_alltoall_persistent. The rival in a race is MPI's blocking call, since few MPIs have persistent
// collectives.
#include "common/blocks.hpp"
#include "common/driver.hpp"
#include "common/requests.hpp"
#include "tapa/tapa.h"

namespace {

using namespace tapa::bench;

class Persistent final : public BlockExchange {
 public:
  using BlockExchange::BlockExchange;

  void release() override { requests_.release(); }

  int call_tapa(MPI_Comm comm) override {
    return requests_.run(comm, [&](MPI_Request* request) {
      return TAPA_Alltoall_init(send(), count(), MPI_CHAR, recv(), count(), MPI_CHAR, comm, MPI_INFO_NULL,
                                request);
    });
  }
  int call_mpi(MPI_Comm comm) override {
    const auto call = options().use_mpi ? MPI_Alltoall : PMPI_Alltoall;
    return call(send(), count(), MPI_CHAR, recv(), count(), MPI_CHAR, comm);
  }

 private:
  PersistentRequests requests_;
};

}  // namespace

int main(int argc, char** argv) {
  return run_latency(
      {Kind::persistent, "tapa_alltoall_persistent",
       "Persistent All-to-All Personalized Exchange Latency Test", "coll_tuned_alltoall_algorithm",
       [](MPI_Comm comm, const Options& options) { return std::make_unique<Persistent>(comm, options); }},
      argc, argv);
}
