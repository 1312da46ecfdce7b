/// @file
/// All-to-alls that are started and waited for, for benchmarks that call them on several communicators; and
/// the forms of calls whose blocks differ.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <vector>

#include "blocks.hpp"
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

/// A call whose blocks have counts and places of their own, in the form of options.form. `Calls` has its
/// functions, alike but for what comes behind the communicator: tapa, tapa_i, tapa_init, mpi, mpi_i, pmpi and
/// pmpi_i; it is made with the number of ranks, and its types() is what they take as datatypes.
template <typename Calls>
class FormedExchange final : public BlockExchange {
 public:
  FormedExchange(MPI_Comm comm, const Options& options)
      : BlockExchange(comm, options), calls_(static_cast<std::size_t>(ranks())) {}

  void release() override { requests_.release(); }

  int call_tapa(MPI_Comm comm) override {
    switch (options().form) {
      case Form::nonblocking:
        if (const int code = set_up_.ensure(comm); code != MPI_SUCCESS) return code;
        return run_nonblocking([&](MPI_Request* request) { return exchange(Calls::tapa_i, comm, request); });
      case Form::persistent:
        return requests_.run(comm, [&](MPI_Request* request) {
          return exchange(Calls::tapa_init, comm, MPI_INFO_NULL, request);
        });
      default:
        return exchange(Calls::tapa, comm);
    }
  }
  // In a race MPI itself is meant, even when a drop-in has taken over its call.
  int call_mpi(MPI_Comm comm) override {
    const bool as_called = options().use_mpi;
    if (options().form != Form::nonblocking) return exchange(as_called ? Calls::mpi : Calls::pmpi, comm);
    const auto call = as_called ? Calls::mpi_i : Calls::pmpi_i;
    return run_nonblocking([&](MPI_Request* request) { return exchange(call, comm, request); });
  }

 private:
  /// `more`: what that form of the call takes behind the communicator.
  template <typename Call, typename... More>
  int exchange(Call call, MPI_Comm comm, More... more) {
    return call(send(), send_counts_.data(), send_at_.data(), calls_.types(), recv(), recv_counts_.data(),
                recv_at_.data(), calls_.types(), comm, more...);
  }

  Calls calls_;
  PersistentRequests requests_;
  SetUpComms set_up_;
};

}  // namespace tapa::bench
