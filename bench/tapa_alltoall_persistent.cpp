// Latency of a persistent all-to-all (start and wait), with the options and columns of
// osu_alltoall_persistent. The rival in a race is MPI's blocking call, since few MPIs have persistent
// collectives.
#include <vector>

#include "common/blocks.hpp"
#include "common/driver.hpp"
#include "tapa/tapa.h"

namespace {

using namespace tapa::bench;

class Persistent final : public BlockExchange {
 public:
  using BlockExchange::BlockExchange;

  void release() override {
    for (auto& [comm, request] : requests_) {
      check(TAPA_Request_free(&request), "TAPA_Request_free");
    }
    requests_.clear();
  }

  int call_tapa(MPI_Comm comm) override {
    MPI_Request* request = request_on(comm);
    if (const int code = TAPA_Start(request); code != MPI_SUCCESS) {
      return code;
    }
    return MPI_Wait(request, MPI_STATUS_IGNORE);
  }
  int call_mpi(MPI_Comm comm) override {
    const auto call = options().use_mpi ? MPI_Alltoall : PMPI_Alltoall;
    return call(send(), count(), MPI_CHAR, recv(), count(), MPI_CHAR, comm);
  }

 private:
  struct OnComm {
    MPI_Comm comm;
    MPI_Request request;
  };

  // Made by the first, untimed call of each size.
  MPI_Request* request_on(MPI_Comm comm) {
    for (OnComm& known : requests_) {
      if (known.comm == comm) {
        return &known.request;
      }
    }
    requests_.push_back({comm, MPI_REQUEST_NULL});
    check(TAPA_Alltoall_init(send(), count(), MPI_CHAR, recv(), count(), MPI_CHAR, comm, MPI_INFO_NULL,
                             &requests_.back().request),
          "TAPA_Alltoall_init");
    return &requests_.back().request;
  }

  std::vector<OnComm> requests_;
};

}  // namespace

int main(int argc, char** argv) {
  return run_latency(
      {Kind::persistent, "tapa_alltoall_persistent",
       "Persistent All-to-All Personalized Exchange Latency Test", "coll_tuned_alltoall_algorithm",
       [](MPI_Comm comm, const Options& options) { return std::make_unique<Persistent>(comm, options); }},
      argc, argv);
}
