/// @file
/// How long a thread waits for MPI's lock while another thread of its rank waits in MPI. Plain MPI, without
/// the library.
#pragma once

#include <mpi.h>

#include <string_view>
#include <thread>
#include <vector>

/// By its own interface or the standard's.
inline bool is_intel_mpi() {
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(version, &length);
  return std::string_view(version).starts_with("Intel");
}

/// An empty message from and to each rank, by calls that are tested.
inline void exchange_tested(MPI_Comm comm) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  std::vector<MPI_Request> requests(2 * static_cast<std::size_t>(size));
  for (int peer = 0; peer < size; ++peer) {
    MPI_Irecv(nullptr, 0, MPI_CHAR, peer, 1, comm, &requests[2 * static_cast<std::size_t>(peer)]);
    MPI_Isend(nullptr, 0, MPI_CHAR, peer, 1, comm, &requests[2 * static_cast<std::size_t>(peer) + 1]);
  }
  for (int done = 0; done == 0; std::this_thread::yield())
    MPI_Testall(2 * size, requests.data(), &done, MPI_STATUSES_IGNORE);
}

/// Seconds of an exchange of one thread while another waits for its end in MPI_Wait; those of the slowest
/// rank, mean of some. Collective. Precondition: MPI_THREAD_MULTIPLE.
inline double seconds_of_a_turn() {
  constexpr int kTurns = 50;
  MPI_Comm work = MPI_COMM_NULL;
  MPI_Comm ends = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &work);
  MPI_Comm_dup(MPI_COMM_SELF, &ends);
  const double began = MPI_Wtime();
  for (int turn = 0; turn < kTurns; ++turn) {
    MPI_Request end = MPI_REQUEST_NULL;
    MPI_Irecv(nullptr, 0, MPI_CHAR, 0, 0, ends, &end);
    std::thread thread([&] {
      exchange_tested(work);
      MPI_Send(nullptr, 0, MPI_CHAR, 0, 0, ends);
    });
    MPI_Wait(&end, MPI_STATUS_IGNORE);
    thread.join();
  }
  double seconds = (MPI_Wtime() - began) / kTurns;
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  MPI_Comm_free(&ends);
  MPI_Comm_free(&work);
  return seconds;
}

/// Whether this is an Intel MPI whose waiting threads leave others no turn. Others take some 0.5 ms on a busy
/// machine, it took 20 to 200 ms. Collective at first.
inline bool waits_starve_threads() {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  if (level != MPI_THREAD_MULTIPLE || !is_intel_mpi()) return false;
  static const bool they_do = seconds_of_a_turn() > 5e-3;
  return they_do;
}
