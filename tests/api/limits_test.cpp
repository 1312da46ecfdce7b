// What a machine may refuse, and what may happen to a process: the exchange goes another way, with right
// data.
//   no-attach   the kernel refuses cross-memory attach to one rank
//   late        the same, but after the first calls
//   other-user  every second rank runs as another user, who may not open the others' memory
//   few-files   one rank can open hardly any files
//   short-files every second rank may not make files as long as shared memory (ulimit -f)
//   fork        ranks fork between calls, with buffers that others map
//   die         one rank is killed in the middle: the job must end
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <mpi.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>

#include "checks.hpp"
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
  expect(TAPA_Alloc(static_cast<MPI_Aint>(ints * sizeof(std::int32_t)), &memory) == MPI_SUCCESS,
         TAPA_Last_error());
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
    expect(TAPA_Alltoall(send, n, MPI_INT, recv.data(), n, MPI_INT, MPI_COMM_WORLD) == MPI_SUCCESS,
           TAPA_Last_error());
    for (int p = 0; p < size; ++p) {
      for (int i = 0; i < n; ++i) {
        if (recv[static_cast<std::size_t>(p * n + i)] == value(p, rank, i) + salt) continue;
        fail(std::to_string(n) + " ints: wrong data from rank " + std::to_string(p));
        break;
      }
    }
  }
  expect(TAPA_Free(memory) == MPI_SUCCESS, TAPA_Last_error());
}

void exchanges(int salt) {
  for (const int n : {1, 300, 5000, 100'000}) exchange(n, salt);
}

/// From now on process_vm_readv fails in this process.
bool refuse_attach() {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof code / sizeof *code, code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

bool become_another_user() {
  constexpr uid_t nobody = 65534;
  return setgid(nobody) == 0 && setuid(nobody) == 0;
}

bool leave_few_files() {
  const int lowest = dup(0);  // the next free descriptor
  close(lowest);
  const rlimit limit{static_cast<rlim_t>(lowest) + 2, static_cast<rlim_t>(lowest) + 2};
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

/// Of files that are longer the kernel says SIGXFSZ, which ends a process.
bool leave_short_files() {
  const rlimit limit{std::size_t{64} << 10, std::size_t{64} << 10};
  return setrlimit(RLIMIT_FSIZE, &limit) == 0;
}

void fork_now_and_then() {
  for (int round = 0; round < 10; ++round) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    exchanges(round);
    int status = 0;
    waitpid(child, &status, 0);
    expect(status == 0, "the child failed");
  }
}

/// The last rank ends by a signal while the others wait for it.
void die() {
  for (int call = 0;; ++call) {
    if (call == 50 && rank_of(MPI_COMM_WORLD) == size_of(MPI_COMM_WORLD) - 1) std::raise(SIGKILL);
    exchange(300, call);
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
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const std::string mode = argc > 1 ? argv[1] : "";
  const int rank = rank_of(MPI_COMM_WORLD);
  const bool odd = rank % 2 == 1;
  MPI_Barrier(MPI_COMM_WORLD);
  if (mode == "no-attach") require(!odd || refuse_attach());
  if (mode == "late") {
    exchanges(0);
    MPI_Barrier(MPI_COMM_WORLD);
    require(rank != 1 || refuse_attach());
  }
  if (mode == "other-user") require(geteuid() == 0 && (!odd || become_another_user()));
  if (mode == "few-files") require(rank != 1 || leave_few_files());
  if (mode == "short-files") require(!odd || leave_short_files());
  if (mode == "fork") fork_now_and_then();
  if (mode == "die") die();
  exchanges(1);
  return finish("limits_test");
}
