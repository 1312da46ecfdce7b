/* The total time of the first N all-to-alls of a program, for many N: what a library behind MPI's back costs
 * or saves it, at whichever call it stops. Knows nothing of libtapa: bench/regret runs it with and without
 * the drop-in.
 *
 * Usage: regret_calls FORM BYTES MOST REPEATS; FORM: blocking, v, nonblocking or persistent (where MPI has
 * it). Prints a line for each N of 1, 3, 10, ... up to MOST: its habit, N, and microseconds of the slowest
 * rank: "long N": from the first call on MPI_COMM_WORLD to the end of the Nth; "dup N": one of REPEATS times
 * dup + N calls + free, their mean (REPEATS 0: no such lines). */
#include <mpi.h>
#ifdef HAVE_MPIX_PERSISTENT
#include <mpi-ext.h>
#define Alltoall_init MPIX_Alltoall_init
#elif defined(HAVE_MPI_PERSISTENT)
#define Alltoall_init MPI_Alltoall_init
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plain_flags.h"

static const int steps[] = {1, 3, 10, 30, 100, 300, 1000, 3000, 10000};
enum { kSteps = sizeof steps / sizeof *steps };

typedef enum { kBlocking, kV, kNonblocking, kPersistent, kForms } Form;
static const char* const names[kForms] = {"blocking", "v", "nonblocking", "persistent"};

static Form form;
static char *send, *recv;
static int bytes, rank, size, *counts, *displs;
static MPI_Request prepared = MPI_REQUEST_NULL;

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
    default:
      MPI_Alltoall(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, comm);
  }
}

static void end(void) {
  if (prepared != MPI_REQUEST_NULL) MPI_Request_free(&prepared);
}

static void tell(const char* habit, int calls, double seconds) {
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0) printf("%s %d\t%.2f\n", habit, calls, seconds * 1e6);
}

static void long_lived(int most) {
  double at[kSteps];
  int done = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  const double began = MPI_Wtime();
  begin(MPI_COMM_WORLD);
  for (int i = 0; i < kSteps && steps[i] <= most; ++i) {
    for (; done < steps[i]; ++done) call(MPI_COMM_WORLD);
    at[i] = MPI_Wtime() - began;
  }
  end();
  for (int i = 0; i < kSteps && steps[i] <= most; ++i) tell("long", steps[i], at[i]);
}

/* As many communicators for each N as make REPEATS calls or communicators, whichever is less. */
static void short_lived(int most, int repeats) {
  for (int i = 0; i < kSteps && steps[i] <= most; ++i) {
    const int lives = repeats / steps[i] > 3 ? repeats / steps[i] : 3;
    double seconds = 0;
    for (int life = 0; life < lives; ++life) {
      MPI_Comm comm;
      MPI_Barrier(MPI_COMM_WORLD);
      const double began = MPI_Wtime();
      MPI_Comm_dup(MPI_COMM_WORLD, &comm);
      begin(comm);
      for (int k = 0; k < steps[i]; ++k) call(comm);
      end();
      MPI_Comm_free(&comm);
      if (life > 0) seconds += MPI_Wtime() - began;
    }
    tell("dup", steps[i], seconds / (lives - 1));
  }
}

int main(int argc, char** argv) {
  const int status =
      plain_flags(argc, argv,
                  "usage: mpirun -n RANKS regret_calls blocking|v|nonblocking|persistent BYTES MOST REPEATS\n"
                  "What 1, 2, ... MOST all-to-alls take in all, in microseconds; see bench/regret.\n");
  if (status >= 0) return status;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (form = kBlocking; argc == 5 && form < kForms && strcmp(argv[1], names[form]) != 0;) ++form;
  bytes = argc == 5 ? atoi(argv[2]) : 0;
  const int most = argc == 5 ? atoi(argv[3]) : 0, repeats = argc == 5 ? atoi(argv[4]) : 0;
  if (argc != 5 || form == kForms || bytes < 1 || most < 1 || repeats < 0) {
    if (rank == 0)
      fprintf(stderr,
              "usage: regret_calls blocking|v|nonblocking|persistent BYTES MOST REPEATS, numbers of 1 or "
              "more, REPEATS of 0 or more\n");
    MPI_Finalize();
    return 2;
  }
#ifndef Alltoall_init
  if (form == kPersistent) {
    if (rank == 0) fprintf(stderr, "regret_calls: this MPI has no persistent all-to-all\n");
    MPI_Finalize();
    return 2;
  }
#endif
  send = calloc((size_t)size, (size_t)bytes);
  recv = calloc((size_t)size, (size_t)bytes);
  counts = calloc((size_t)size, sizeof *counts);
  displs = calloc((size_t)size, sizeof *displs);
  if (send == NULL || recv == NULL || counts == NULL || displs == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  for (int i = 0; i < size; ++i) counts[i] = bytes, displs[i] = i * bytes;
  long_lived(most);
  if (repeats > 0) short_lived(most, repeats);
  free(send);
  free(recv);
  free(counts);
  free(displs);
  MPI_Finalize();
  return 0;
}
