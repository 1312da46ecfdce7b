// Latency of TAPA_Alltoallw, with the options and columns of osu_alltoallw, and blocks of different sizes on
// request.
#include <vector>

#include "common/blocks.hpp"
#include "common/driver.hpp"
#include "tapa/tapa.h"

namespace {

using namespace tapa::bench;

class Alltoallw final : public BlockExchange {
 public:
  Alltoallw(MPI_Comm comm, const Options& options)
      : BlockExchange(comm, options), types_(static_cast<std::size_t>(ranks()), MPI_CHAR) {}

  int call_tapa(MPI_Comm comm) override { return exchange(TAPA_Alltoallw, comm); }
  // In a race MPI itself is meant, even when a drop-in has taken over MPI_Alltoallw.
  int call_mpi(MPI_Comm comm) override {
    return exchange(options().use_mpi ? MPI_Alltoallw : PMPI_Alltoallw, comm);
  }

 private:
  template <typename Call>
  int exchange(Call call, MPI_Comm comm) {
    return call(send(), send_counts_.data(), send_at_.data(), types_.data(), recv(), recv_counts_.data(),
                recv_at_.data(), types_.data(), comm);
  }

  std::vector<MPI_Datatype> types_;
};

}  // namespace

int main(int argc, char** argv) {
  return run_latency(
      {Kind::alltoallw, "tapa_alltoallw", "All-to-Allw Personalized Exchange Latency Test", "",
       [](MPI_Comm comm, const Options& options) { return std::make_unique<Alltoallw>(comm, options); }},
      argc, argv);
}
