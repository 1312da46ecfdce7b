/* Many ranks send to few, few send to many, and one of either may come late to a call: MPI_Alltoallv and w,
 * blocking and nonblocking, of short and long blocks. Prints the wrong elements of all ranks; what nobody
 * sends stays as it was. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { kMost = 16, kLongest = 18000, kForms = 4, kPadding = -1 };

static int rank, size;
static int *out, *in;
static int sent[kMost], received[kMost], places[kMost], bytes[kMost];
static MPI_Datatype types[kMost];

/* Elements from a rank to another. */
static int elements(int from, int to, int few, int gather, int length) {
  return (gather ? to : from) < few ? length * (1 + (from + to) % 3) / 3 : 0;
}

static int element(int from, int to, int i, int call) {
  return ((call * kMost + from) * kMost + to) * 64 + i % 61;
}

static void exchange(int form) {
  MPI_Request request = MPI_REQUEST_NULL;
  const MPI_Comm comm = MPI_COMM_WORLD;
  if (form == 0) MPI_Alltoallv(out, sent, places, MPI_INT, in, received, places, MPI_INT, comm);
  if (form == 1) MPI_Alltoallw(out, sent, bytes, types, in, received, bytes, types, comm);
  if (form == 2) MPI_Ialltoallv(out, sent, places, MPI_INT, in, received, places, MPI_INT, comm, &request);
  if (form == 3) MPI_Ialltoallw(out, sent, bytes, types, in, received, bytes, types, comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static int call(int number, int form, int few, int gather, int length, int late) {
  int wrong = 0;
  for (int p = 0; p < size; ++p) {
    sent[p] = elements(rank, p, few, gather, length);
    received[p] = elements(p, rank, few, gather, length);
    for (int i = 0; i < kLongest; ++i) {
      out[p * kLongest + i] = element(rank, p, i, number);
      in[p * kLongest + i] = kPadding;
    }
  }
  if (rank == late) usleep(3000);
  exchange(form);
  for (int p = 0; p < size; ++p) {
    for (int i = 0; i < kLongest; ++i)
      wrong += in[p * kLongest + i] != (i < received[p] ? element(p, rank, i, number) : kPadding);
  }
  return wrong;
}

int main(int argc, char** argv) {
  int wrong = 0, calls = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  out = malloc(sizeof(int) * kLongest * (size_t)size), in = malloc(sizeof(int) * kLongest * (size_t)size);
  if (size > kMost || out == NULL || in == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  for (int p = 0; p < size; ++p) {
    places[p] = p * kLongest, bytes[p] = places[p] * (int)sizeof(int);
    types[p] = MPI_INT;
  }
  const int lengths[] = {6, 1500, kLongest}, lates[] = {-1, 0, size - 1};
  for (int form = 0; form < kForms; ++form) {
    for (int l = 0; l < 3; ++l) {
      for (int shape = 0; shape < 4; ++shape) { /* one or two are few */
        for (int late = 0; late < 3; ++late)
          wrong += call(calls++, form, 1 + shape / 2, shape % 2, lengths[l], lates[late]);
      }
    }
  }
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d calls, %d wrong\n", calls, wrong);
  MPI_Finalize();
  return wrong != 0;
}
