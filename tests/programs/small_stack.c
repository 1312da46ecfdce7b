/* All-to-alls of a thread that has little stack: enough for MPI.
 *
 *   small_stack KIB    of the stack; at least what threads must have here */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { kMostRanks = 16, kCalls = 5 };

static int rank, size, bad;
static int send[kMostRanks], recv[kMostRanks], counts[kMostRanks], displs[kMostRanks], bytes[kMostRanks];
static MPI_Datatype types[kMostRanks];

static void fill(int round) {
  for (int p = 0; p < size; ++p) {
    send[p] = (round * 64 + rank) * 64 + p;
    recv[p] = -1;
    counts[p] = 1, displs[p] = p, bytes[p] = p * (int)sizeof(int), types[p] = MPI_INT;
  }
}

static int wrong(int round) {
  int n = 0;
  for (int p = 0; p < size; ++p) n += recv[p] != (round * 64 + p) * 64 + rank;
  return n;
}

static void call(int form) {
  MPI_Request request;
  switch (form) {
    case 0:
      MPI_Alltoall(send, 1, MPI_INT, recv, 1, MPI_INT, MPI_COMM_WORLD);
      break;
    case 1:
      MPI_Alltoallv(send, counts, displs, MPI_INT, recv, counts, displs, MPI_INT, MPI_COMM_WORLD);
      break;
    case 2:
      MPI_Alltoallw(send, counts, bytes, types, recv, counts, bytes, types, MPI_COMM_WORLD);
      break;
    default:
      MPI_Ialltoall(send, 1, MPI_INT, recv, 1, MPI_INT, MPI_COMM_WORLD, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
}

static void* work(void* unused) {
  for (int round = 0; round < 4 * kCalls; ++round) {
    fill(round);
    call(round / kCalls);
    bad += wrong(round);
  }
  return unused;
}

int main(int argc, char** argv) {
  int provided;
  pthread_attr_t attributes;
  pthread_t thread;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const long least = sysconf(_SC_THREAD_STACK_MIN), wanted = argc == 2 ? 1024L * atoi(argv[1]) : 0;
  pthread_attr_init(&attributes);
  if (wanted <= 0 || size > kMostRanks || provided < MPI_THREAD_MULTIPLE ||
      pthread_attr_setstacksize(&attributes, (size_t)(wanted > least ? wanted : least)) != 0 ||
      pthread_create(&thread, &attributes, work, NULL) != 0) {
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  pthread_join(thread, NULL);
  MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("small stack: %d wrong\n", bad);
  MPI_Finalize();
  return bad != 0;
}
