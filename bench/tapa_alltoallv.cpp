// Latency of TAPA_Alltoallv, with the options and columns of osu_alltoallv, and blocks of different sizes on
// request.
#include "common/driver.hpp"
#include "common/requests.hpp"
#include "tapa/tapa.h"

namespace {

using namespace tapa::bench;

struct Calls {
  static constexpr auto tapa = TAPA_Alltoallv, mpi = MPI_Alltoallv, pmpi = PMPI_Alltoallv;
  static constexpr auto tapa_i = TAPA_Ialltoallv, mpi_i = MPI_Ialltoallv, pmpi_i = PMPI_Ialltoallv;
  static constexpr auto tapa_init = TAPA_Alltoallv_init;

  explicit Calls(std::size_t) {}
  [[nodiscard]] static MPI_Datatype types() { return MPI_CHAR; }
};

}  // namespace

int main(int argc, char** argv) {
  return run_latency({Kind::alltoallv, "tapa_alltoallv", "All-to-Allv Personalized Exchange Latency Test",
                      "coll_tuned_alltoallv_algorithm",
                      [](MPI_Comm comm, const Options& options) {
                        return std::make_unique<FormedExchange<Calls>>(comm, options);
                      }},
                     argc, argv);
}
