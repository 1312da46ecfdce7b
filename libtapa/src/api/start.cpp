// The entry points of persistent requests: starting and freeing them.
#include <algorithm>
#include <string>

#include "api/requests.hpp"
#include "run/error.hpp"
#include "run/progress.hpp"
#include "tapa/tapa.h"

using namespace tapa;

namespace {

/// Throws CallError unless the request is persistent, of this library, and not active; `name` is the
/// argument's.
void require_inactive(MPI_Request request, const std::string& name, bool to_start) {
  switch (Progress::instance().state(request)) {
    case Progress::State::idle:
      return;
    case Progress::State::active:
      throw CallError(MPI_ERR_REQUEST,
                      name + " is active, expected a request that was completed by MPI_Wait or MPI_Test");
    case Progress::State::failed:
      if (!to_start) return;
      throw CallError(MPI_ERR_REQUEST, name + " failed in an earlier run, expected a request that works");
    case Progress::State::unknown:
      break;
  }
  throw CallError(MPI_ERR_REQUEST,
                  request == MPI_REQUEST_NULL
                      ? name + " is MPI_REQUEST_NULL, expected a request of TAPA_Alltoall_init or its kin"
                      : name + " is not a request of TAPA_Alltoall_init or its kin");
}

/// Whether persistent requests are MPI's own, because nothing would make ours progress.
bool left_to_mpi(const MPI_Request requests[], int count) {
  return Progress::instance().driver() == Driver::none &&
         std::none_of(requests, requests + count, [](MPI_Request r) { return r == MPI_REQUEST_NULL; });
}

}  // namespace

extern "C" {

int TAPA_Start(MPI_Request* request) {
  return guarded(MPI_COMM_NULL, "TAPA_Start", [&] {
    require_request(request);
    if (left_to_mpi(request, 1)) return PMPI_Start(request);
    require_inactive(*request, "request", true);
    check_mpi(Progress::instance().start(1, request), "MPI_Start");
    return MPI_SUCCESS;
  });
}

int TAPA_Startall(int count, MPI_Request requests[]) {
  return guarded(MPI_COMM_NULL, "TAPA_Startall", [&] {
    if (count < 0)
      throw CallError(MPI_ERR_COUNT, "count is " + std::to_string(count) + ", expected 0 or more");
    if (count == 0) return MPI_SUCCESS;
    if (requests == nullptr) throw CallError(MPI_ERR_ARG, "requests is null, expected an array of requests");
    if (left_to_mpi(requests, count)) return PMPI_Startall(count, requests);
    for (int i = 0; i < count; ++i)
      require_inactive(requests[i], "requests[" + std::to_string(i) + "]", true);
    check_mpi(Progress::instance().start(count, requests), "MPI_Startall");
    return MPI_SUCCESS;
  });
}

int TAPA_Request_free(MPI_Request* request) {
  return guarded(MPI_COMM_NULL, "TAPA_Request_free", [&] {
    require_request(request);
    if (left_to_mpi(request, 1)) return PMPI_Request_free(request);
    require_inactive(*request, "request", false);
    check_mpi(Progress::instance().free(request), "MPI_Request_free");
    return MPI_SUCCESS;
  });
}

}  // extern "C"
