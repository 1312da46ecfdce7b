// Latency of TAPA_Alltoallw, with the options and columns of osu_alltoallw, and blocks of different sizes on
// request.
#include <vector>

#include "common/driver.hpp"
#include "common/requests.hpp"
#include "tapa/tapa.h"

namespace {

using namespace tapa::bench;

class Calls {
 public:
  static constexpr auto tapa = TAPA_Alltoallw, mpi = MPI_Alltoallw, pmpi = PMPI_Alltoallw;
  static constexpr auto tapa_i = TAPA_Ialltoallw, mpi_i = MPI_Ialltoallw, pmpi_i = PMPI_Ialltoallw;
  static constexpr auto tapa_init = TAPA_Alltoallw_init;

  explicit Calls(std::size_t ranks) : types_(ranks, MPI_CHAR) {}
  [[nodiscard]] const MPI_Datatype* types() const { return types_.data(); }

 private:
  std::vector<MPI_Datatype> types_;
};

}  // namespace

int main(int argc, char** argv) {
  return run_latency({Kind::alltoallw, "tapa_alltoallw", "All-to-Allw Personalized Exchange Latency Test", "",
                      [](MPI_Comm comm, const Options& options) {
                        return std::make_unique<FormedExchange<Calls>>(comm, options);
                      }},
                     argc, argv);
}
