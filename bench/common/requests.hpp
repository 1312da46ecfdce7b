/// @file
/// All-to-alls that are started and waited for, for benchmarks that call them on several communicators.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <vector>

#include "exchange.hpp"
#include "tapa/tapa.h"

namespace tapa::bench {

/// Persistent requests of TAPA_, one for each communicator.
class PersistentRequests {
 public:
  /// Starts the communicator's request and waits for it. `init(MPI_Request*)` makes it in the first call.
  template <typename Init>
  int run(MPI_Comm comm, const Init& init) {
    auto known =
        std::find_if(all_.begin(), all_.end(), [&](const OnComm& each) { return each.comm == comm; });
    if (known == all_.end()) {
      MPI_Request request = MPI_REQUEST_NULL;
      if (const int code = init(&request); code != MPI_SUCCESS) return code;
      known = all_.insert(all_.end(), {comm, request});
    }
    if (const int code = TAPA_Start(&known->request); code != MPI_SUCCESS) return code;
    return MPI_Wait(&known->request, MPI_STATUS_IGNORE);
  }

  /// Frees all requests. Collective.
  void release() {
    for (OnComm& each : all_) check(TAPA_Request_free(&each.request), "TAPA_Request_free");
    all_.clear();
  }

 private:
  struct OnComm {
    MPI_Comm comm;
    MPI_Request request;
  };
  std::vector<OnComm> all_;
};

/// Communicators on which nonblocking calls are the library's.
class SetUpComms {
 public:
  /// Collective in the first call for a communicator.
  int ensure(MPI_Comm comm) {
    if (std::find(all_.begin(), all_.end(), comm) != all_.end()) return MPI_SUCCESS;
    all_.push_back(comm);
    return TAPA_Comm_setup(comm);
  }

 private:
  std::vector<MPI_Comm> all_;
};

/// Starts a nonblocking call by `start(MPI_Request*)` and waits for it.
template <typename Start>
int run_nonblocking(const Start& start) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = start(&request);
  return code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
}

}  // namespace tapa::bench
