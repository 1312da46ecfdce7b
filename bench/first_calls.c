/* What a program that nobody tuned pays for its first all-to-alls, in all, at whichever call it stops, and
 * for MPI_Init. Knows nothing of libtapa: bench/first-calls runs it with and without the drop-in.
 *
 * Usage: first_calls FORM BYTES MOST REPEATS; FORM: blocking, v, nonblocking, persistent (where MPI has it)
 * or neighbours: MPI_Neighbor_alltoall with all that touch a rank in a torus of three dimensions, its corners
 * too, on a communicator of its own in place of MPI_COMM_WORLD. Prints lines for each N of 1, 3, 10, ... up
 * to MOST, with microseconds of the slowest rank: world N, if REPEATS is 0: from the first call of the
 * process, on MPI_COMM_WORLD, to the end of the Nth dup N, if it is not: dup + N calls + free, mean of
 * communicators with REPEATS calls in all (3 at least) init: MPI_Init first_calls none calls no all-to-all;
 * init, and life: from MPI_Init to the end of MPI_Finalize.
 *
 * Ends with status 3 when wrong data came. What is in a block depends on who sends it to whom, its first and
 * last 8 bytes also on the call, in the first and the last call of each N. It is compared when the clock has
 * stopped: ends and middle of each block of these calls of "world", all of its last call and of the last of
 * each "dup", and all of every call of one more communicator for each N, which is not counted. */
#include <mpi.h>
#ifdef HAVE_MPIX_PERSISTENT
#include <mpi-ext.h>
#define Alltoall_init MPIX_Alltoall_init
#elif defined(HAVE_MPI_PERSISTENT)
#define Alltoall_init MPI_Alltoall_init
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plain_flags.h"

static const int steps[] = {1, 3, 10, 30, 100, 300, 1000, 3000, 10000};
enum { kSteps = sizeof steps / sizeof *steps, kEdge = 8, kSample = 2 * kEdge + 1, kWrong = 3 };

typedef enum { kBlocking, kV, kNonblocking, kPersistent, kNeighbours, kForms, kNone } Form;
static const char* const names[kForms] = {"blocking", "v", "nonblocking", "persistent", "neighbours"};

static Form form;
static MPI_Comm base;
static char *send, *recv, *expected; /* a block for each peer */
static int bytes, rank, size, number, peers, *peer, *counts, *displs;
static MPI_Request prepared = MPI_REQUEST_NULL;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What does not depend on the call. */
static void fill(char* block, int from, int to) {
  for (int k = 0; k < bytes; ++k) block[k] = (char)(from * 131 + to * 31 + k * 7 + (k >> 8));
}

/* What does; all bits of it differ between calls. */
static void stamp_block(char* block, int from, int to, int call) {
  uint64_t word = ((uint64_t)from << 48 | (uint64_t)to << 32 | (uint32_t)call) * 0x9e3779b97f4a7c15u;
  word = (word ^ word >> 32) * 0xff51afd7ed558ccdu;
  word ^= word >> 29;
  memcpy(block, &word, bytes < kEdge ? (size_t)bytes : kEdge);
  if (bytes >= 2 * kEdge) memcpy(block + bytes - kEdge, &word, kEdge);
}

static void stamp(int call) {
  for (int i = 0; i < peers; ++i) stamp_block(send + (size_t)i * (size_t)bytes, rank, peer[i], call);
}

static void expect(int call) {
  for (int i = 0; i < peers; ++i) stamp_block(expected + (size_t)i * (size_t)bytes, peer[i], rank, call);
}

/* The ends and the middle of each block. */
static void sample(const char* blocks, char* to) {
  const size_t edge = bytes < kEdge ? (size_t)bytes : kEdge;
  for (int i = 0; i < peers; ++i, blocks += bytes, to += kSample) {
    memcpy(to, blocks, edge);
    memcpy(to + kEdge, blocks + (size_t)bytes - edge, edge);
    to[2 * kEdge] = blocks[bytes / 2];
  }
}

static void compare(const char* got, const char* right, size_t block, const char* habit, int call) {
  if (memcmp(got, right, block * (size_t)peers) == 0) return;
  int from = 0;
  while (memcmp(got + (size_t)from * block, right + (size_t)from * block, block) == 0) ++from;
  fprintf(stderr, "first_calls: %s, %s, %d bytes: wrong data from rank %d to rank %d in call %d\n",
          names[form], habit, bytes, peer[from], rank, call);
  MPI_Abort(MPI_COMM_WORLD, kWrong);
}

static void begin(MPI_Comm comm) {
#ifdef Alltoall_init
  if (form == kPersistent)
    Alltoall_init(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, comm, MPI_INFO_NULL, &prepared);
#else
  (void)comm;
#endif
}

static void call(MPI_Comm comm) {
  MPI_Request request;
  switch (form) {
    case kV:
      MPI_Alltoallv(send, counts, displs, MPI_BYTE, recv, counts, displs, MPI_BYTE, comm);
      break;
    case kNonblocking:
      MPI_Ialltoall(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, comm, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      break;
    case kPersistent:
      MPI_Start(&prepared);
      MPI_Wait(&prepared, MPI_STATUS_IGNORE);
      break;
    case kNeighbours:
      MPI_Neighbor_alltoall(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, comm);
      break;
    default:
      MPI_Alltoall(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, comm);
  }
  ++number;
}

static void end(void) {
  if (prepared != MPI_REQUEST_NULL) MPI_Request_free(&prepared);
}

static void tell(const char* what, double seconds) {
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0) printf("%s\t%.2f\n", what, seconds * 1e6);
}

static void tell_calls(const char* habit, int calls, double seconds) {
  char what[32];
  snprintf(what, sizeof what, "%s %d", habit, calls);
  tell(what, seconds);
}

/* N calls, with a stamp of its own in the last. */
static void calls_to(int last, MPI_Comm comm) {
  while (number + 1 < last) call(comm);
  stamp(last);
  call(comm);
}

static void world(int most) {
  double at[kSteps];
  const size_t kept = (size_t)peers * kSample;
  char* const samples = calloc(kSteps + 1, kept);
  if (samples == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  int n = 0;
  stamp(1);
  MPI_Barrier(MPI_COMM_WORLD);
  const double began = now();
  begin(base);
  for (; n < kSteps && steps[n] <= most; ++n) {
    calls_to(steps[n], base);
    at[n] = now() - began;
    sample(recv, samples + (size_t)n * kept);
  }
  end();
  for (int i = 0; i < n; ++i) {
    expect(steps[i]);
    sample(expected, samples + kSteps * kept);
    compare(samples + (size_t)i * kept, samples + kSteps * kept, kSample, "world", steps[i]);
  }
  compare(recv, expected, (size_t)bytes, "world", number);
  for (int i = 0; i < n; ++i) tell_calls("world", steps[i], at[i]);
  free(samples);
}

/* Seconds from dup to free; all calls are checked if `checked`, which takes time, else the last. */
static double life(int calls, bool checked) {
  MPI_Comm comm;
  const int before = number;
  stamp(before + 1);
  MPI_Barrier(MPI_COMM_WORLD);
  const double began = now();
  MPI_Comm_dup(base, &comm);
  begin(comm);
  while (number < before + calls) {
    calls_to(checked ? number + 1 : before + calls, comm);
    if (checked) expect(number), compare(recv, expected, (size_t)bytes, "dup", number);
  }
  end();
  MPI_Comm_free(&comm);
  const double seconds = now() - began;
  expect(number);
  compare(recv, expected, (size_t)bytes, "dup", number);
  return seconds;
}

/* As many communicators for each N as make REPEATS calls or communicators, whichever is less. */
static void short_lived(int most, int repeats) {
  for (int i = 0; i < kSteps && steps[i] <= most; ++i) {
    const int lives = repeats / steps[i] > 3 ? repeats / steps[i] : 3;
    double seconds = 0;
    for (int k = 0; k < lives; ++k) seconds += life(steps[i], false);
    life(steps[i], true); /* not counted */
    tell_calls("dup", steps[i], seconds / lives);
  }
}

static void* zeros(size_t items, size_t each) {
  void* const memory = calloc(items, each);
  if (memory == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  return memory;
}

/* Whether two ranks are one or touch each other in the torus. */
static bool touch(int a, int b, const int dims[3]) {
  for (int d = 2; d >= 0; a /= dims[d], b /= dims[d], --d) {
    const int apart = (a % dims[d] - b % dims[d] + dims[d]) % dims[d];
    if (apart > 1 && apart < dims[d] - 1) return false;
  }
  return true;
}

static void find_peers(void) {
  int dims[3] = {0, 0, 0};
  MPI_Dims_create(size, 3, dims);
  peer = zeros((size_t)size, sizeof *peer);
  for (int i = 0; i < size; ++i) {
    if (form != kNeighbours || (i != rank && touch(i, rank, dims))) peer[peers++] = i;
  }
  base = MPI_COMM_WORLD;
  if (form == kNeighbours)
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, peers, peer, peer, peers, peer, peer, MPI_INFO_NULL, 0,
                                   &base);
}

static void prepare(void) {
  find_peers();
  send = zeros((size_t)size, (size_t)bytes);
  recv = zeros((size_t)size, (size_t)bytes);
  expected = zeros((size_t)size, (size_t)bytes);
  counts = zeros((size_t)size, sizeof *counts);
  displs = zeros((size_t)size, sizeof *displs);
  for (int i = 0; i < peers; ++i) {
    fill(send + (size_t)i * (size_t)bytes, rank, peer[i]);
    fill(expected + (size_t)i * (size_t)bytes, peer[i], rank);
    counts[i] = bytes, displs[i] = i * bytes;
  }
  memset(recv, 0x55, (size_t)size * (size_t)bytes); /* so that it is there */
}

static void release(void) {
  if (base != MPI_COMM_WORLD) MPI_Comm_free(&base);
  free(send), free(recv), free(expected);
  free(counts), free(displs), free(peer);
}

/* Whether what the command line asks for can be done; rank 0 says why not. */
static bool wanted(int argc, char** argv, int* most, int* repeats) {
  for (form = kBlocking; argc > 1 && form < kForms && strcmp(argv[1], names[form]) != 0;) ++form;
  if (argc == 2 && strcmp(argv[1], "none") == 0) form = kNone;
  bytes = argc == 5 ? atoi(argv[2]) : 0;
  *most = argc == 5 ? atoi(argv[3]) : 0, *repeats = argc == 5 ? atoi(argv[4]) : 0;
  if (form != kNone && (form == kForms || bytes < 1 || *most < 1 || *repeats < 0)) {
    if (rank == 0)
      fprintf(stderr,
              "usage: first_calls none, or blocking|v|nonblocking|persistent|neighbours BYTES MOST REPEATS, "
              "numbers of 1 "
              "or more, REPEATS of 0 or more\n");
    return false;
  }
#ifndef Alltoall_init
  if (form == kPersistent) {
    if (rank == 0) fprintf(stderr, "first_calls: this MPI has no persistent all-to-all\n");
    return false;
  }
#endif
  return true;
}

int main(int argc, char** argv) {
  const int status =
      plain_flags(argc, argv,
                  "usage: mpirun -n RANKS first_calls none | blocking|v|nonblocking|persistent|neighbours "
                  "BYTES MOST REPEATS\n"
                  "What 1, 3, ... MOST all-to-alls take in all, in microseconds; see bench/first-calls.\n");
  if (status >= 0) return status;
  const double began = now();
  MPI_Init(&argc, &argv);
  const double init = now() - began;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int most = 0, repeats = 0;
  if (!wanted(argc, argv, &most, &repeats)) {
    MPI_Finalize();
    return 2;
  }
  if (form != kNone) {
    prepare();
    if (repeats > 0)
      short_lived(most, repeats);
    else
      world(most);
    release();
  }
  tell("init", init);
  MPI_Finalize();
  if (form == kNone && rank == 0) printf("life\t%.2f\n", (now() - began) * 1e6);
  return 0;
}
