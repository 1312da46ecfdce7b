/* All-to-alls with buffers in the memory of a GPU that is none (tests/run/fake_gpu.c): the processor may not
 * touch it, but for MPI, of which we say that it is GPU-aware.
 *
 *   gpu DRIVER all|one|many|turns|host|late|reused|options|uploaded [strict]
 *
 * all, one: all ranks, or one, use the GPU from the beginning on and have their buffers there. many: as one,
 * and first a persistent call on each of many new communicators, soon freed. turns: all use it, and have
 * buffers there in some of the calls, each rank in others. host: they use it, but all buffers are in host
 * memory. late: they use it when the communicator is set up already. reused: its memory comes to lie where
 * memory of the host was. options: as host, and options change between calls of which some ranks have made
 * the like before. uploaded: as all, and what is sent was copied there just before, from memory that is not
 * pinned. strict: MPI may not touch its memory either. Exit status 1 when something is wrong. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "linked_names.h"
#include "persistent.h"
#ifdef Alltoall_init
#define PERSISTENT 1
#endif
#ifdef USE_TAPA
#undef Alltoall_init
#define Alltoall_init TAPA_Alltoall_init
#define MPI_Start TAPA_Start
#define MPI_Request_free TAPA_Request_free
#endif

#ifndef OPEN_MPI
enum { kForms = 6 }; /* persistent calls are MPI's, which does not take such memory */
#elif defined PERSISTENT
enum { kForms = 7 };
#else
enum { kForms = 6 };
#endif
enum { kElements = 600, kMostRanks = 8, kRounds = 20 };
enum { kInts = kMostRanks * kElements };

static int rank, size;
static MPI_Comm comm = MPI_COMM_NULL;     /* of the calls */
static MPI_Datatype every_second, listed; /* the same ints, as a vector and as a list */
static int as_list;
static void (*initialise)(void);
static void* (*allocate)(size_t);
static void* (*allocate_at)(void*, size_t);
static void (*reach)(int);
static void (*upload)(void*, const void*, size_t); /* null: the processor writes what is sent */
static int on_gpu;                                 /* whether this rank's buffers are there */
static int strict;                                 /* whether MPI may not touch them either */

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
    if (strstr(info.dli_fname, "libtapa") == NULL && !strict) {
      touch(1);
      return;
    }
    break;
  }
  fprintf(stderr, "gpu: memory of the GPU was touched by others than it and MPI (signal %d)\n", signal);
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
      return MPI_Alltoall(send, kElements, MPI_INT, recv, kElements, MPI_INT, comm);
    case 1:
      return MPI_Alltoallv(send, counts, displs, MPI_INT, recv, counts, displs, MPI_INT, comm);
    case 2:
      return MPI_Alltoallw(send, counts, bytes, types, recv, counts, bytes, types, comm);
    case 3:
      return MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, kElements, MPI_INT, comm);
    case 4: /* received in every second place */
      return MPI_Alltoall(send, kElements, MPI_INT, recv, 1, as_list ? listed : every_second, comm);
    case 5:
      code = MPI_Ialltoall(send, kElements, MPI_INT, recv, kElements, MPI_INT, comm, &request);
      if (code == MPI_SUCCESS) MPI_Wait(&request, MPI_STATUS_IGNORE);
      return code;
    default:
#ifdef PERSISTENT
      code = Alltoall_init(send, kElements, MPI_INT, recv, kElements, MPI_INT, comm, MPI_INFO_NULL, &request);
      if (code != MPI_SUCCESS) return code;
      MPI_Start(&request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      MPI_Request_free(&request);
#endif
      return code;
  }
}

/* How many forms of calls there are: Intel MPI's library of the standard's interface has nothing that makes
 * nonblocking ones progress, so they are MPI's. */
static int forms(void) {
#ifndef OPEN_MPI
  if (dlsym(RTLD_DEFAULT, "PMPIX_Grequest_start") == NULL &&
      dlsym(RTLD_DEFAULT, "MPIX_Grequest_start") == NULL)
    return 5;
#endif
  return kForms;
}

static int wrong(int form, int round, int* send, int* recv) {
  const int stride = form == 4 ? 2 : 1;
  as_list = round % 2;
  int n = 0;
  touch(1);
  memset(recv, 0xff, 2 * kInts * sizeof(int));
  for (int p = 0; p < size; ++p)
    for (int i = 0; i < kElements; ++i)
      (form == 3 ? recv : send)[p * kElements + i] = upload != NULL ? -2 : value(rank, p, i, round);
  touch(0);
  if (upload != NULL) {
    static int values[kInts];
    for (int p = 0; p < size; ++p)
      for (int i = 0; i < kElements; ++i) values[p * kElements + i] = value(rank, p, i, round);
    upload(form == 3 ? recv : send, values, (size_t)size * kElements * sizeof(int));
  }
  if (call(form, send, recv) != MPI_SUCCESS) return kInts;
  touch(1);
  for (int p = 0; p < size; ++p)
    for (int i = 0; i < kElements; ++i) {
      const int* const place = &recv[stride * (p * kElements + i)];
      n += place[0] != value(p, rank, i, round) || (stride == 2 && place[1] != -1);
    }
  touch(0);
  return n;
}

/* Calls in host memory, by a promise of that and without it. Rank 1's counts are in bytes then, so that it
 * remembers nothing of the earlier ones. */
static int changing_options(int* send, int* recv) {
  int bad = 0;
#ifdef USE_TAPA
  for (int round = 0; round < kRounds; ++round) {
    const int promised = round % 4 < 2;
    TAPA_Comm_set(MPI_COMM_WORLD, "gpu", promised ? "host" : "auto");
    if (promised || rank != 1) {
      bad += wrong(0, round, send, recv);
      continue;
    }
    for (int i = 0; i < size * kElements; ++i) send[i] = value(rank, i / kElements, i % kElements, round);
    TAPA_Alltoall(send, kElements * (int)sizeof(int), MPI_BYTE, recv, kElements * (int)sizeof(int), MPI_BYTE,
                  MPI_COMM_WORLD);
    for (int i = 0; i < size * kElements; ++i)
      bad += recv[i] != value(i / kElements, rank, i % kElements, round);
  }
#endif
  (void)send, (void)recv;
  return bad;
}

int main(int argc, char** argv) {
  static int host[3 * kInts], places[kElements];
  int *send = host, *recv = host + kInts, *there = NULL, bad = 0, all = 0;
  const char* mode = argc > 2 ? argv[2] : "";
  const int late = strcmp(mode, "late") == 0, many = strcmp(mode, "many") == 0;
  const int one = many || strcmp(mode, "one") == 0;
  const int turns = strcmp(mode, "turns") == 0;
  void* driver = dlopen(argv[1], RTLD_NOW);
  void* frame;
  MPI_Datatype short_of_a_gap;
  MPI_Init(&argc, &argv);
  comm = MPI_COMM_WORLD;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (driver == NULL || size > kMostRanks) MPI_Abort(MPI_COMM_WORLD, 2);
  *(void**)(&initialise) = dlsym(driver, "fake_initialise");
  *(void**)(&allocate) = dlsym(driver, "fake_allocate");
  *(void**)(&allocate_at) = dlsym(driver, "fake_allocate_at");
  *(void**)(&reach) = dlsym(driver, "fake_reach");
  if (strcmp(mode, "uploaded") == 0) *(void**)(&upload) = dlsym(driver, "fake_upload");
  strict = argc > 3 && strcmp(argv[3], "strict") == 0;
  MPI_Type_vector(kElements, 1, 2, MPI_INT, &short_of_a_gap);
  MPI_Type_create_resized(short_of_a_gap, 0, 2 * kElements * (MPI_Aint)sizeof(int), &every_second);
  MPI_Type_free(&short_of_a_gap);
  MPI_Type_commit(&every_second);
  for (int i = 0; i < kElements; ++i) places[i] = 2 * i;
  MPI_Type_create_indexed_block(kElements, 1, places, MPI_INT, &short_of_a_gap);
  MPI_Type_create_resized(short_of_a_gap, 0, 2 * kElements * (MPI_Aint)sizeof(int), &listed);
  MPI_Type_free(&short_of_a_gap);
  MPI_Type_commit(&listed);
  backtrace(&frame, 1); /* it may load a library */
  signal(SIGSEGV, fault);
  if (late)
    for (int round = 0; round < kRounds; ++round) bad += wrong(0, round, send, recv);
  if (!one || rank == 1) {
    const size_t bytes = 3 * kInts * sizeof(int) + 4096;
    initialise();
    if (strcmp(mode, "reused") == 0) {
      send = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      recv = send + kInts;
      for (int round = 0; round < kRounds; ++round) bad += wrong(0, round, send, recv);
      there = allocate_at(send, bytes);
    } else {
      there = allocate(bytes);
    }
    if (strcmp(mode, "host") != 0 && strcmp(mode, "options") != 0) {
      send = there;
      recv = there + kInts;
      on_gpu = 1;
    }
  }
  for (int round = 0; many && kForms > 6 && round < kRounds; ++round) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    bad += wrong(6, round, send, recv);
    MPI_Comm_free(&comm);
    comm = MPI_COMM_WORLD;
  }
  if (strcmp(mode, "options") == 0) bad += changing_options(send, recv);
  for (int round = 0; round < kRounds; ++round)
    for (int form = 0; form < forms(); ++form) {
      if (turns) {
        on_gpu = (round + form + rank) % 3 != 0 && (round % 4 != 1);
        send = on_gpu ? there : host;
        recv = send + kInts;
      }
      bad += wrong(form, round, send, recv);
    }
  MPI_Allreduce(&bad, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  /* Where the report goes. */
  if (rank == 0) fprintf(stderr, "%s: %d wrong\n", mode, all);
  MPI_Type_free(&every_second);
  MPI_Type_free(&listed);
  MPI_Finalize();
  return all != 0;
}
