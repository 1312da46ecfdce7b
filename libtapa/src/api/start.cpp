// The entry points of persistent requests: starting and freeing them.
#include <algorithm>
#include <string>

#include "carry/carriers.hpp"
#include "run/world.hpp"
#include "tapa/tapa.h"

using namespace tapa;

namespace {

/// Throws CallError unless the request `name` is persistent, of this library, and not active.
void require_inactive(MPI_Request request, const std::string& name, bool to_start) {
  switch (Progress::instance().state(request)) {
    case Progress::State::idle:
      return;
    case Progress::State::active:
      refuse(MPI_ERR_REQUEST,
             name + " is active, expected a request that was completed by MPI_Wait or MPI_Test");
    case Progress::State::failed:
      if (!to_start) return;
      refuse(MPI_ERR_REQUEST, name + " failed in an earlier run, expected a request that works");
    case Progress::State::unknown:
      break;
  }
  refuse(MPI_ERR_REQUEST,
         request == MPI_REQUEST_NULL
             ? name + " is MPI_REQUEST_NULL, expected a request of TAPA_Alltoall_init or its kin"
             : name + " is not a request of TAPA_Alltoall_init or its kin");
}

/// Whether starts come too late: what requests of ours need is freed with what hangs on MPI_COMM_SELF.
bool too_late() {
  return world_ends() && !has_forwarded_init();
}

int refuse_late(const char* function) {
  return guarded(MPI_COMM_NULL, function, [] {
    refuse(MPI_ERR_REQUEST,
           "MPI_Finalize has ended what persistent requests need, expected a start before; from what "
           "hangs on MPI_COMM_SELF only where that was hung there after the first all-to-all");
  });
}

void require_startable(const MPI_Request requests[], int i) {
  require_inactive(requests[i], "requests[" + std::to_string(i) + "]", true);
}

/// Whether persistent requests are MPI's own.
bool left_to_mpi(const MPI_Request requests[], int count) {
  const bool ours_possible = world_began() && Progress::instance().always_advances();
  if (ours_possible && !has_forwarded_init()) return false;
  return std::all_of(requests, requests + count, [&](MPI_Request r) {
    return r != MPI_REQUEST_NULL &&
           !(ours_possible && Progress::instance().state(r) != Progress::State::unknown);
  });
}

/// Runs `ours`, or `mpis` where the requests are MPI's own: it calls its handler, so nothing may be alive.
template <class Ours, class Mpis>
int run(const char* function, const MPI_Request requests[], int count, const Ours& ours, const Mpis& mpis) {
  if (requests != nullptr && count > 0 && left_to_mpi(requests, count)) {
    return in_mpi(function, mpis);
  }
  return guarded(MPI_COMM_NULL, function, ours);
}

}  // namespace

extern "C" {

int TAPA_Start(MPI_Request* request) {
  if (too_late()) return refuse_late("TAPA_Start");
  const auto ours = [&] {
    require_request(request);
    require_inactive(*request, "request", true);
    check_mpi(Progress::instance().start(1, request), "MPI_Start");
  };
  return run("TAPA_Start", request, 1, ours, [&] { return PMPI_Start(request); });
}

int TAPA_Startall(int count, MPI_Request requests[]) {
  if (too_late()) return refuse_late("TAPA_Startall");
  if (count > 1 && requests != nullptr && has_forwarded_init()) {  // some may be MPI's, some ours
    int code = guarded(MPI_COMM_NULL, "TAPA_Startall", [&] {
      for (int i = 0; i < count; ++i) {
        if (!left_to_mpi(&requests[i], 1)) require_startable(requests, i);
      }
    });
    for (int i = 0; i < count && code == MPI_SUCCESS; ++i) code = TAPA_Start(&requests[i]);
    return code;
  }
  const auto ours = [&] {
    if (count < 0) refuse(MPI_ERR_COUNT, "count is ", count, ", expected 0 or more");
    if (count == 0) return;
    if (requests == nullptr) refuse(MPI_ERR_ARG, "requests is null, expected an array of requests");
    for (int i = 0; i < count; ++i) require_startable(requests, i);
    check_mpi(Progress::instance().start(count, requests), "MPI_Startall");
  };
  return run("TAPA_Startall", requests, count, ours, [&] { return PMPI_Startall(count, requests); });
}

int TAPA_Request_free(MPI_Request* request) {
  const auto ours = [&] {
    require_request(request);
    require_inactive(*request, "request", false);
    check_mpi(Progress::instance().free(request), "MPI_Request_free");
  };
  return run("TAPA_Request_free", request, 1, ours, [&] { return PMPI_Request_free(request); });
}

}  // extern "C"
