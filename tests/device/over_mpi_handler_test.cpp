// The error handler of a communicator that a device communicator is made of stays the program's, also while
// ranks wait for each other, and what another thread sets meanwhile is kept. MPI makes nothing of that
// communicator here, and would call its error handler. The engine here is one that asks
// all ranks for a number, when it is made and later.
#include <mpi.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>

#include "device/create.hpp"
#include "device/device_error.hpp"
#include "tapa/device_mpi.h"
#include "tapa/tapa.h"

struct TAPA_Device_comm_s {
  int rank, size;
  TAPA_Device_allgather allgather;
  std::shared_ptr<void> context;
};

namespace {

using namespace std::chrono_literals;

int failures = 0;
std::atomic<int> calls{0};  // of the handlers below
std::atomic<bool> asking{false};
MPI_Comm program = MPI_COMM_NULL;

void expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "%s\n", what);
  ++failures;
}

void count_call(MPI_Comm*, int*, ...) {
  ++calls;
}

MPI_Errhandler new_handler() {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(count_call, &handler);
  return handler;
}

bool is_handler(MPI_Comm comm, MPI_Errhandler expected) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_get_errhandler(comm, &handler);
  const bool same = handler == expected;
  MPI_Errhandler_free(&handler);
  return same;
}

/// The last rank comes when the first has told it to.
bool ask_all(const TAPA_Device_comm_s& comm) {
  if (comm.rank == comm.size - 1) MPI_Recv(nullptr, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  asking = true;
  std::array<int, 16> all{};
  const int code = comm.allgather(comm.context.get(), &comm.rank, all.data(), sizeof comm.rank);
  asking = false;
  for (int rank = 0; rank < comm.size; ++rank) expect(all[static_cast<std::size_t>(rank)] == rank, "numbers");
  return code == 0;
}

/// Looks at the program's communicator while the first rank waits, and gives it another handler.
void look(MPI_Comm comm, MPI_Errhandler before, MPI_Errhandler after, int last) {
  while (!asking) std::this_thread::yield();
  std::this_thread::sleep_for(50ms);
  expect(is_handler(comm, before), "the handler was set aside");
  MPI_Comm_set_errhandler(comm, after);
  MPI_Send(nullptr, 0, MPI_INT, last, 0, MPI_COMM_WORLD);
}

template <class Step>
void watched(MPI_Comm comm, const Step& step) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank != 0) return step();
  MPI_Errhandler before = new_handler();
  MPI_Errhandler after = new_handler();
  MPI_Comm_set_errhandler(comm, before);
  std::thread other(look, comm, before, after, size - 1);
  step();
  other.join();
  expect(is_handler(comm, after), "the handler that was set meanwhile is lost");
  MPI_Errhandler_free(&before);
  MPI_Errhandler_free(&after);
}

}  // namespace

int tapa::device::create_communicator(const char*, int rank, int size, TAPA_Device_allgather allgather,
                                      const std::shared_ptr<void>& context, const MessageOffer&,
                                      const TAPA_Device_options*, TAPA_Device_comm* comm) noexcept {
  *comm = new TAPA_Device_comm_s{rank, size, allgather, context};
  return ask_all(**comm) ? TAPA_DEVICE_SUCCESS : TAPA_DEVICE_ERR_ARG;
}

int PMPI_Comm_create(MPI_Comm of, MPI_Group group, MPI_Comm* made) {
  if (of != program || program == MPI_COMM_NULL) return MPI_Comm_create(of, group, made);
  MPI_Comm_call_errhandler(of, MPI_ERR_INTERN);
  return MPI_ERR_INTERN;
}

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  if (level != MPI_THREAD_MULTIPLE) {
    std::printf("skipped: no MPI_THREAD_MULTIPLE\n");
    MPI_Finalize();
    return 77;
  }
  TAPA_Comm_setup(MPI_COMM_WORLD);
  MPI_Comm_dup(MPI_COMM_WORLD, &program);
  TAPA_Device_comm comm = TAPA_DEVICE_COMM_NULL;
  watched(program, [&] {
    expect(TAPA_Device_comm_create_mpi(program, nullptr, &comm) == TAPA_DEVICE_SUCCESS, "creation");
  });
  watched(program, [&] { expect(ask_all(*comm), "a later question"); });
  MPI_Comm_free(&program);
  watched(MPI_COMM_WORLD, [&] { expect(ask_all(*comm), "behind the program's communicator"); });
  expect(calls == 0, "a handler was called");
  delete comm;
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
