/// A channel of a context: a communicator of its own, so that its exchanges meet no others.
#pragma once

#include <mpi.h>

#include <condition_variable>
#include <memory>
#include <thread>

#include "common/all_to_all.hpp"

namespace dit {

struct Channel {
  int index = 0;
  MPI_Comm comm = MPI_COMM_NULL;
  std::unique_ptr<AllToAll> exchange;
  /// An exchange was started here that was not blocking. From then on blocking ones are such with a wait,
  /// too: MPI's two kinds do not match each other, and what is under way may differ from rank to rank.
  bool overlapped = false;
  /// Starts what waits for other ranks; from the first such exchange on.
  std::thread starter;
  std::condition_variable in_line;  ///< with the context's mutex: something waits to be started
  bool starting = false;            ///< the thread is inside such a start
};

}  // namespace dit
