// MPI_THREAD_MULTIPLE: several threads, each on a communicator of its own, whose state is made there.
#include <mpi.h>

#include <atomic>
#include <thread>

#include "checks.hpp"
#include "tapa/errors_return.hpp"
#include "tapa/tapa.h"

using namespace checks;

namespace {

constexpr int kThreads = 4;

std::atomic<int> wrong{0};

void exchange(MPI_Comm comm, int times, int thread) {
  const int rank = rank_of(comm);
  const int size = size_of(comm);
  for (int t = 0; t < times; ++t) {
    const int n = 1 + t % 5;
    std::vector<std::int32_t> out;
    for (int p = 0; p < size; ++p) {
      for (int i = 0; i < n; ++i) out.push_back(value(rank, p, i) + thread + t);
    }
    std::vector<std::int32_t> in(out.size(), kGuard);
    if (TAPA_Alltoall(out.data(), n, MPI_INT32_T, in.data(), n, MPI_INT32_T, comm) != MPI_SUCCESS) ++wrong;
    for (int k = 0; k < n * size; ++k) {
      if (in[static_cast<std::size_t>(k)] != value(k / n, rank, k % n) + thread + t) ++wrong;
    }
  }
}

/// An error in one thread is not seen by the others.
void own_errors(int thread) {
  const int code =
      thread % 2 == 0 ? TAPA_Comm_setup(MPI_COMM_NULL) : TAPA_Get_version(nullptr, nullptr, nullptr);
  if ((code != MPI_SUCCESS) != (thread % 2 == 0)) ++wrong;
  if (std::string(TAPA_Last_error()).empty() != (thread % 2 == 1)) ++wrong;
}

}  // namespace

int main(int argc, char** argv) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, tapa::errors_return());
  if (provided < MPI_THREAD_MULTIPLE) {
    std::printf("threads_test: this MPI has no MPI_THREAD_MULTIPLE\n");
    MPI_Finalize();
    return 77;
  }
  MPI_Comm comms[kThreads];
  for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&comms, t] {
      exchange(comms[t], 100, t);
      own_errors(t);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
  expect(wrong == 0, std::to_string(wrong) + " wrong results");
  return finish("threads_test");
}
