// Latency of TAPA_Alltoallv, with the options and columns of osu_alltoallv, and blocks of different sizes on
// request.
#include "common/blocks.hpp"
#include "common/driver.hpp"
#include "tapa/tapa.h"

namespace {

using namespace tapa::bench;

class Alltoallv final : public BlockExchange {
 public:
  using BlockExchange::BlockExchange;

  int call_tapa(MPI_Comm comm) override { return exchange(TAPA_Alltoallv, comm); }
  // In a race MPI itself is meant, even when a drop-in has taken over MPI_Alltoallv.
  int call_mpi(MPI_Comm comm) override {
    return exchange(options().use_mpi ? MPI_Alltoallv : PMPI_Alltoallv, comm);
  }

 private:
  template <typename Call>
  int exchange(Call call, MPI_Comm comm) {
    return call(send(), send_counts_.data(), send_at_.data(), MPI_CHAR, recv(), recv_counts_.data(),
                recv_at_.data(), MPI_CHAR, comm);
  }
};

}  // namespace

int main(int argc, char** argv) {
  return run_latency(
      {Kind::alltoallv, "tapa_alltoallv", "All-to-Allv Personalized Exchange Latency Test",
       "coll_tuned_alltoallv_algorithm",
       [](MPI_Comm comm, const Options& options) { return std::make_unique<Alltoallv>(comm, options); }},
      argc, argv);
}
