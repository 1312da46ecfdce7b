/* 20 nonblocking and 20 blocking all-to-alls with blocks of 128 KiB; each result is checked. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { kBytes = 128 << 10, kRanks = 2, kCalls = 20 };
static unsigned char sent[kRanks * kBytes], received[kRanks * kBytes];
static int rank;

static unsigned char value(int from, int to, int call) {
  return (unsigned char)(from * 31 + to * 7 + call);
}

static int wrong(int call, int nonblocking) {
  int bad = 0;
  for (int p = 0; p < kRanks; ++p) memset(sent + p * kBytes, value(rank, p, call), kBytes);
  if (nonblocking) {
    MPI_Request request;
    MPI_Ialltoall(sent, kBytes, MPI_BYTE, received, kBytes, MPI_BYTE, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else {
    MPI_Alltoall(sent, kBytes, MPI_BYTE, received, kBytes, MPI_BYTE, MPI_COMM_WORLD);
  }
  for (int i = 0; i < kRanks * kBytes; ++i) bad += received[i] != value(i / kBytes, rank, call);
  return bad;
}

int main(int argc, char** argv) {
  int bad = 0, size;
#ifdef OPEN_MPI
  MPI_Init(&argc, &argv);
#else /* a thread makes nonblocking calls progress */
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
#endif
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != kRanks) MPI_Abort(MPI_COMM_WORLD, 2);
  for (int call = 0; call < 2 * kCalls; ++call) bad += wrong(call, call < kCalls);
  if (bad != 0) printf("rank %d: %d bytes are wrong\n", rank, bad);
  MPI_Finalize();
  return bad != 0;
}
