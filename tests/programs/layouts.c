/* MPI_Alltoall whose send and receive layouts differ: contiguous on one side, every second element on the
 * other, gaps watched. Prints the wrong elements of all ranks. Open MPI up to 4.1.4 gets this wrong with 16
 * ranks and small blocks (its Bruck algorithm, mended by open-mpi/ompi pull request 10488). */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kElements = 4, kStride = 2, kGap = -1 };

static int value(int source, int destination, int i) {
  return (source * 1000 + destination) * 10 + i;
}

/* Elements wrong and gaps overwritten after one all-to-all, with the strided layout on the side that is asked
 * for. */
static int exchange(int strided_send, int strided_recv) {
  MPI_Datatype spread, strided;
  int rank, size, wrong = 0;
  const int sstep = strided_send ? kStride : 1;
  const int rstep = strided_recv ? kStride : 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Type_vector(kElements, 1, kStride, MPI_INT, &spread);
  MPI_Type_create_resized(spread, 0, kElements * kStride * (MPI_Aint)sizeof(int), &strided);
  MPI_Type_commit(&strided);
  const size_t room = (size_t)size * kElements * kStride;
  int* send = malloc(room * sizeof(int));
  int* recv = malloc(room * sizeof(int));
  if (send == NULL || recv == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  for (size_t i = 0; i < room; ++i) send[i] = recv[i] = kGap;
  for (int d = 0; d < size; ++d) {
    for (int i = 0; i < kElements; ++i) send[(d * kElements + i) * sstep] = value(rank, d, i);
  }
  MPI_Alltoall(send, strided_send ? 1 : kElements, strided_send ? strided : MPI_INT, recv,
               strided_recv ? 1 : kElements, strided_recv ? strided : MPI_INT, MPI_COMM_WORLD);
  for (int s = 0; s < size; ++s) {
    for (int i = 0; i < kElements; ++i) {
      const int at = (s * kElements + i) * rstep;
      wrong += recv[at] != value(s, rank, i);
      if (strided_recv) wrong += recv[at + 1] != kGap;
    }
  }
  free(send);
  free(recv);
  MPI_Type_free(&strided);
  MPI_Type_free(&spread);
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return wrong;
}

int main(int argc, char** argv) {
  int rank, total = 0;
  static const char* const names[4] = {"contiguous to contiguous", "contiguous to strided",
                                       "strided to contiguous", "strided to strided"};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < 4; ++i) {
    const int wrong = exchange(i / 2, i % 2);
    if (rank == 0) printf("%s: %d wrong\n", names[i], wrong);
    total += wrong;
  }
  MPI_Finalize();
  return total != 0;
}
