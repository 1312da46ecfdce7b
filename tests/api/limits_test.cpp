// What a machine may refuse, and what may happen to a process: the exchange goes another way, with right
// data.
//   no-attach   the kernel refuses cross-memory attach to one rank
//   late        the same, but after the first calls
//   other-user  every second rank runs as another user, who may not open the others' memory
//   few-files   one rank can open hardly any files
//   short-files every second rank may not make files as long as shared memory (ulimit -f)
//   fork        ranks fork between calls, with buffers that others map
#include <mpi.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "checks.hpp"
#include "faults/refuse.hpp"
#include "tapa/errors_return.hpp"
#include "tapa/tapa.h"

using namespace checks;

namespace {

/// Several sizes, from ordinary and from registered memory.
void exchange(int n, int salt) {
  const int rank = rank_of(MPI_COMM_WORLD);
  const int size = size_of(MPI_COMM_WORLD);
  const auto ints = static_cast<std::size_t>(n * size);
  std::vector<std::int32_t> ordinary(ints), recv(ints);
  void* memory = nullptr;
  expect_done(TAPA_Alloc(static_cast<MPI_Aint>(ints * sizeof(std::int32_t)), &memory));
  auto* const registered = static_cast<std::int32_t*>(memory);
  for (int p = 0; p < size; ++p) {
    for (int i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(p * n + i);
      ordinary[at] = registered[at] = value(rank, p, i) + salt;
    }
  }
  for (const std::int32_t* send :
       {const_cast<const std::int32_t*>(ordinary.data()), const_cast<const std::int32_t*>(registered)}) {
    recv.assign(ints, kGuard);
    expect_done(TAPA_Alltoall(send, n, MPI_INT, recv.data(), n, MPI_INT, MPI_COMM_WORLD));
    for (int p = 0; p < size; ++p) {
      for (int i = 0; i < n; ++i) {
        if (recv[static_cast<std::size_t>(p * n + i)] == value(p, rank, i) + salt) continue;
        fail(std::to_string(n) + " ints: wrong data from rank " + std::to_string(p));
        break;
      }
    }
  }
  expect_done(TAPA_Free(memory));
}

void exchanges(int salt) {
  for (const int n : {1, 300, 5000, 100'000}) exchange(n, salt);
}

bool become_another_user() {
  constexpr uid_t nobody = 65534;
  return setgid(nobody) == 0 && setuid(nobody) == 0;
}

void fork_now_and_then() {
  for (int round = 0; round < 10; ++round) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    exchanges(round);
    int status = 0;
    TEMP_FAILURE_RETRY(waitpid(child, &status, 0));
    expect(status == 0, "the child failed");
  }
}

/// All ranks skip the test when one cannot prepare it.
void require(bool prepared) {
  int all = prepared ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (all != 0) return;
  MPI_Finalize();
  std::exit(77);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, tapa::errors_return());
  const std::string mode = argc > 1 ? argv[1] : "";
  const int rank = rank_of(MPI_COMM_WORLD);
  const bool odd = rank % 2 == 1;
  MPI_Barrier(MPI_COMM_WORLD);
  if (mode == "no-attach") require(!odd || faults::refuse_call(SYS_process_vm_readv, EPERM));
  if (mode == "late") {
    exchanges(0);
    MPI_Barrier(MPI_COMM_WORLD);
    require(rank != 1 || faults::refuse_call(SYS_process_vm_readv, EPERM));
  }
  if (mode == "other-user") require(geteuid() == 0 && (!odd || become_another_user()));
  if (mode == "few-files") require(rank != 1 || faults::leave_few_files());
  if (mode == "short-files") require(!odd || faults::leave_short_files());
  if (mode == "fork") fork_now_and_then();
  exchanges(1);
  return finish("limits_test");
}
