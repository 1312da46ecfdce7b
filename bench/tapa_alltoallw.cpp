// Latency of TAPA_Alltoallw, with the options and columns of osu_alltoallw, and blocks of different sizes on
// request.
#include <vector>

#include "common/blocks.hpp"
#include "common/driver.hpp"
#include "common/requests.hpp"
#include "tapa/tapa.h"

namespace {

using namespace tapa::bench;

class Alltoallw final : public BlockExchange {
 public:
  Alltoallw(MPI_Comm comm, const Options& options)
      : BlockExchange(comm, options), types_(static_cast<std::size_t>(ranks()), MPI_CHAR) {}

  void release() override { requests_.release(); }

  int call_tapa(MPI_Comm comm) override {
    switch (options().form) {
      case Form::nonblocking:
        if (const int code = set_up_.ensure(comm); code != MPI_SUCCESS) return code;
        return run_nonblocking(
            [&](MPI_Request* request) { return exchange(TAPA_Ialltoallw, comm, request); });
      case Form::persistent:
        return requests_.run(comm, [&](MPI_Request* request) {
          return exchange(TAPA_Alltoallw_init, comm, MPI_INFO_NULL, request);
        });
      default:
        return exchange(TAPA_Alltoallw, comm);
    }
  }
  // In a race MPI itself is meant, even when a drop-in has taken over MPI_Alltoallw.
  int call_mpi(MPI_Comm comm) override {
    if (options().form == Form::nonblocking) {
      const auto call = options().use_mpi ? MPI_Ialltoallw : PMPI_Ialltoallw;
      return run_nonblocking([&](MPI_Request* request) { return exchange(call, comm, request); });
    }
    return exchange(options().use_mpi ? MPI_Alltoallw : PMPI_Alltoallw, comm);
  }

 private:
  /// `more`: what that form of the call takes behind the communicator.
  template <typename Call, typename... More>
  int exchange(Call call, MPI_Comm comm, More... more) {
    return call(send(), send_counts_.data(), send_at_.data(), types_.data(), recv(), recv_counts_.data(),
                recv_at_.data(), types_.data(), comm, more...);
  }

  std::vector<MPI_Datatype> types_;
  PersistentRequests requests_;
  SetUpComms set_up_;
};

}  // namespace

int main(int argc, char** argv) {
  return run_latency(
      {Kind::alltoallw, "tapa_alltoallw", "All-to-Allw Personalized Exchange Latency Test", "",
       [](MPI_Comm comm, const Options& options) { return std::make_unique<Alltoallw>(comm, options); }},
      argc, argv);
}
