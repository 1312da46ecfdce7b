// Latency of TAPA_Alltoallv, with the options and columns of osu_alltoallv, and blocks of different sizes on
// request.
#include "common/blocks.hpp"
#include "common/driver.hpp"
#include "common/requests.hpp"
#include "tapa/tapa.h"

namespace {

using namespace tapa::bench;

class Alltoallv final : public BlockExchange {
 public:
  using BlockExchange::BlockExchange;

  void release() override { requests_.release(); }

  int call_tapa(MPI_Comm comm) override {
    switch (options().form) {
      case Form::nonblocking:
        if (const int code = set_up_.ensure(comm); code != MPI_SUCCESS) return code;
        return run_nonblocking(
            [&](MPI_Request* request) { return exchange(TAPA_Ialltoallv, comm, request); });
      case Form::persistent:
        return requests_.run(comm, [&](MPI_Request* request) {
          return exchange(TAPA_Alltoallv_init, comm, MPI_INFO_NULL, request);
        });
      default:
        return exchange(TAPA_Alltoallv, comm);
    }
  }
  // In a race MPI itself is meant, even when a drop-in has taken over MPI_Alltoallv.
  int call_mpi(MPI_Comm comm) override {
    if (options().form == Form::nonblocking) {
      const auto call = options().use_mpi ? MPI_Ialltoallv : PMPI_Ialltoallv;
      return run_nonblocking([&](MPI_Request* request) { return exchange(call, comm, request); });
    }
    return exchange(options().use_mpi ? MPI_Alltoallv : PMPI_Alltoallv, comm);
  }

 private:
  /// `more`: what that form of the call takes behind the communicator.
  template <typename Call, typename... More>
  int exchange(Call call, MPI_Comm comm, More... more) {
    return call(send(), send_counts_.data(), send_at_.data(), MPI_CHAR, recv(), recv_counts_.data(),
                recv_at_.data(), MPI_CHAR, comm, more...);
  }

  PersistentRequests requests_;
  SetUpComms set_up_;
};

}  // namespace

int main(int argc, char** argv) {
  return run_latency(
      {Kind::alltoallv, "tapa_alltoallv", "All-to-Allv Personalized Exchange Latency Test",
       "coll_tuned_alltoallv_algorithm",
       [](MPI_Comm comm, const Options& options) { return std::make_unique<Alltoallv>(comm, options); }},
      argc, argv);
}
