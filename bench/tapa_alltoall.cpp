// Latency of TAPA_Alltoall, with the options and columns of osu_alltoall.
#include <cstring>
#include <vector>

#include "common/blocks.hpp"
#include "common/driver.hpp"
#include "tapa/tapa.h"

namespace {

using namespace tapa::bench;

class Alltoall final : public BlockExchange {
 public:
  Alltoall(MPI_Comm comm, const Options& options) : BlockExchange(comm, options) {
    if (options.elements == Elements::chars) return;
    unit_ = sizeof(double);
    type_ = MPI_DOUBLE;
    if (options.elements == Elements::doubles) return;
    MPI_Type_create_resized(MPI_DOUBLE, 0, 2 * sizeof(double), &gaps_);
    MPI_Type_commit(&gaps_);
  }
  ~Alltoall() override {
    if (gaps_ != MPI_DATATYPE_NULL) MPI_Type_free(&gaps_);
  }
  Alltoall(const Alltoall&) = delete;
  Alltoall& operator=(const Alltoall&) = delete;

  void fill(std::uint32_t seed) override {
    BlockExchange::fill(seed);
    if (gaps_ == MPI_DATATYPE_NULL) return;
    const std::size_t doubles = bytes() / unit_ * static_cast<std::size_t>(ranks());
    spread_.resize(2 * doubles);
    for (std::size_t i = 0; i < doubles; ++i) std::memcpy(&spread_[2 * i], sent_bytes() + i * unit_, unit_);
  }

  int call_tapa(MPI_Comm comm) override { return exchange(TAPA_Alltoall, comm); }
  // In a race MPI itself is meant, even when a drop-in has taken over MPI_Alltoall.
  int call_mpi(MPI_Comm comm) override {
    return exchange(options().use_mpi ? MPI_Alltoall : PMPI_Alltoall, comm);
  }

 private:
  template <typename Call>
  int exchange(Call call, MPI_Comm comm) {
    const int elements = count() / static_cast<int>(unit_);
    return gaps_ == MPI_DATATYPE_NULL ? call(send(), elements, type_, recv(), elements, type_, comm)
                                      : call(spread_.data(), elements, gaps_, recv(), elements, type_, comm);
  }

  std::size_t unit_ = 1;  // bytes of an element
  MPI_Datatype type_ = MPI_CHAR;
  MPI_Datatype gaps_ = MPI_DATATYPE_NULL;
  std::vector<double> spread_;  // what is sent with gaps
};

}  // namespace

int main(int argc, char** argv) {
  return run_latency(
      {Kind::alltoall, "tapa_alltoall", "All-to-All Personalized Exchange Latency Test",
       "coll_tuned_alltoall_algorithm",
       [](MPI_Comm comm, const Options& options) { return std::make_unique<Alltoall>(comm, options); }},
      argc, argv);
}
