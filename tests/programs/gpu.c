/* All-to-alls with buffers in the memory of a GPU that is none (tests/run/fake_gpu.c): the processor may not
 * touch it, but for MPI, of which we say that it is GPU-aware.
 *
 *   gpu DRIVER all|one|host|late
 *
 * all, one: all ranks, or one, use the GPU from the beginning on and have their buffers there. host: they use
 * it, but all buffers are in host memory. late: they use it when the communicator is set up already; then
 * calls with buffers there must be refused. Exit status 1 when something is wrong. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <mpi.h>
#ifdef HAVE_MPIX_PERSISTENT
#include <mpi-ext.h>
#define Alltoall_init MPIX_Alltoall_init
#define PERSISTENT 1
#elif defined(HAVE_MPI_PERSISTENT)
#define Alltoall_init MPI_Alltoall_init
#define PERSISTENT 1
#endif
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef USE_TAPA
#include <tapa/tapa.h>
#define MPI_Alltoall TAPA_Alltoall
#define MPI_Alltoallv TAPA_Alltoallv
#define MPI_Alltoallw TAPA_Alltoallw
#define MPI_Ialltoall TAPA_Ialltoall
#undef Alltoall_init
#define Alltoall_init TAPA_Alltoall_init
#define MPI_Start TAPA_Start
#define MPI_Request_free TAPA_Request_free
#endif

#ifdef PERSISTENT
enum { kForms = 5 };
#else
enum { kForms = 4 };
#endif
#ifdef OPEN_MPI
enum { kRefused = kForms };
#else
enum { kRefused = 3 }; /* without threads the others are MPI's */
#endif
enum { kElements = 600, kMostRanks = 8, kRounds = 20 };
enum { kInts = kMostRanks * kElements };

static int rank, size;
static void (*initialise)(void);
static void* (*allocate)(size_t);
static void (*reach)(int);
static int on_gpu; /* whether this rank's buffers are there */

static void touch(int allowed) {
  if (on_gpu) reach(allowed);
}

/* Whose code has touched the GPU's memory? */
static void fault(int signal) {
  void* frames[64];
  const int depth = backtrace(frames, 64);
  for (int i = 0; i < depth; ++i) {
    Dl_info info;
    if (dladdr(frames[i], &info) == 0 || strstr(info.dli_fname, "libc.so") != NULL) continue;
    if (strstr(info.dli_fname, "program_gpu") != NULL) continue;
    if (strstr(info.dli_fname, "libtapa") == NULL) {
      touch(1);
      return;
    }
    break;
  }
  fprintf(stderr, "gpu: memory of the GPU was touched outside MPI (signal %d)\n", signal);
  _exit(1);
}

static int value(int from, int to, int i, int round) {
  return ((round * kMostRanks + from) * kMostRanks + to) * kElements + i;
}

/* One all-to-all; returns its code. */
static int call(int form, int* send, int* recv) {
  int counts[kMostRanks], displs[kMostRanks], bytes[kMostRanks], code = MPI_SUCCESS;
  MPI_Datatype types[kMostRanks];
  MPI_Request request = MPI_REQUEST_NULL;
  for (int p = 0; p < size; ++p) {
    counts[p] = kElements;
    displs[p] = p * kElements;
    bytes[p] = displs[p] * (int)sizeof(int);
    types[p] = MPI_INT;
  }
  switch (form) {
    case 0:
      return MPI_Alltoall(send, kElements, MPI_INT, recv, kElements, MPI_INT, MPI_COMM_WORLD);
    case 1:
      return MPI_Alltoallv(send, counts, displs, MPI_INT, recv, counts, displs, MPI_INT, MPI_COMM_WORLD);
    case 2:
      return MPI_Alltoallw(send, counts, bytes, types, recv, counts, bytes, types, MPI_COMM_WORLD);
    case 3:
      code = MPI_Ialltoall(send, kElements, MPI_INT, recv, kElements, MPI_INT, MPI_COMM_WORLD, &request);
      if (code == MPI_SUCCESS) MPI_Wait(&request, MPI_STATUS_IGNORE);
      return code;
    default:
#ifdef PERSISTENT
      code = Alltoall_init(send, kElements, MPI_INT, recv, kElements, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL,
                           &request);
      if (code != MPI_SUCCESS) return code;
      MPI_Start(&request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      MPI_Request_free(&request);
#endif
      return code;
  }
}

static int wrong(int form, int round, int* send, int* recv) {
  int n = 0;
  touch(1);
  for (int p = 0; p < size; ++p)
    for (int i = 0; i < kElements; ++i) send[p * kElements + i] = value(rank, p, i, round);
  memset(recv, 0xff, kInts * sizeof(int));
  touch(0);
  if (call(form, send, recv) != MPI_SUCCESS) return kInts;
  touch(1);
  for (int p = 0; p < size; ++p)
    for (int i = 0; i < kElements; ++i) n += recv[p * kElements + i] != value(p, rank, i, round);
  touch(0);
  return n;
}

static int refused(int form, int* send, int* recv) {
  int class = MPI_SUCCESS;
  MPI_Error_class(call(form, send, recv), &class);
  return class == MPI_ERR_BUFFER;
}

int main(int argc, char** argv) {
  static int host[2 * kInts];
  int *send = host, *recv = host + kInts, *there, bad = 0, all = 0;
  const char* mode = argc > 2 ? argv[2] : "";
  const int late = strcmp(mode, "late") == 0, one = strcmp(mode, "one") == 0;
  void* driver = dlopen(argv[1], RTLD_NOW);
  void* frame;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (driver == NULL || size > kMostRanks) MPI_Abort(MPI_COMM_WORLD, 2);
  *(void**)(&initialise) = dlsym(driver, "fake_initialise");
  *(void**)(&allocate) = dlsym(driver, "fake_allocate");
  *(void**)(&reach) = dlsym(driver, "fake_reach");
  backtrace(&frame, 1); /* it may load a library */
  signal(SIGSEGV, fault);
  if (late)
    for (int round = 0; round < kRounds; ++round) bad += wrong(0, round, send, recv);
  if (!one || rank == 1) {
    initialise();
    there = allocate(2 * kInts * sizeof(int) + 4096);
    if (strcmp(mode, "host") != 0) {
      send = there;
      recv = there + kInts;
      on_gpu = 1;
    }
  }
  if (late) {
    /* The error is each rank's own, so nobody waits for the others. */
    for (int form = 0; form < kRefused; ++form) bad += !refused(form, send, recv);
    for (int form = 0; form < kRefused; ++form) bad += !refused(form, host, recv);
    on_gpu = 0;
    send = host;
    recv = host + kInts;
  }
  for (int round = 0; round < kRounds; ++round)
    for (int form = 0; form < kRefused; ++form) bad += wrong(form, round, send, recv);
  MPI_Allreduce(&bad, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  /* Where the report goes. */
  if (rank == 0) fprintf(stderr, "%s: %d wrong\n", mode, all);
  MPI_Finalize();
  return all != 0;
}
