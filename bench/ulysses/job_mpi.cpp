#include <mpi.h>

#include <cstdio>
#include <exception>

#include "job.hpp"

namespace tapa::bench {

void Job::barrier() {
  MPI_Barrier(MPI_COMM_WORLD);
}

double Job::greatest(double value) {
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return value;
}

std::uint64_t Job::sum(std::uint64_t value) {
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  return value;
}

void* Job::communicator() {
  return nullptr;
}

const char* Job::host_plugin() {
  return "mpi";
}

const char* Job::device_plugin() {
  return "tapa";
}

int run_program(const char* name, int, char**, const std::function<int(Job&)>& body) {
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int result = 1;
  try {
    Job job(rank, size);
    result = body(job);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return result;
}

}  // namespace tapa::bench
