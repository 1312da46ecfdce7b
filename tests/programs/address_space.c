/* All-to-alls of long blocks with gaps in a process that may map little more memory (RLIMIT_AS): MPI sends
 * such blocks in pieces and needs less than a block, so nobody behind its back may need more. Prints how many
 * elements are wrong.
 *
 *   address_space uniform | in-place | list [one [ends]]
 *
 * uniform, in-place: MPI_Alltoall of vectors; list: MPI_Alltoallw of lists of as many blocks as elements.
 * one: rank 0 alone has the limit. ends: the call may fail on any rank, but nobody may wait, and without the
 * limit the next one is right. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { kElements = 1000000, kSpare = 12 << 20, kWarm = 1 << 20, kMostRanks = 4 };

static int rank, size;

/* Every other double. */
static MPI_Datatype with_gaps(int listed) {
  MPI_Datatype rows, type;
  if (listed) {
    MPI_Aint* displs = malloc(kElements * sizeof *displs);
    if (displs == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
    for (int i = 0; i < kElements; ++i) displs[i] = 2 * i * (MPI_Aint)sizeof(double);
    MPI_Type_create_hindexed_block(kElements, 1, displs, MPI_DOUBLE, &rows);
    free(displs);
  } else {
    MPI_Type_vector(kElements, 1, 2, MPI_DOUBLE, &rows);
  }
  MPI_Type_create_resized(rows, 0, 2 * kElements * (MPI_Aint)sizeof(double), &type);
  MPI_Type_commit(&type);
  MPI_Type_free(&rows);
  return type;
}

static int exchange(const char* form, const double* send, double* recv, MPI_Datatype type) {
  int counts[kMostRanks], displs[kMostRanks];
  MPI_Datatype types[kMostRanks];
  if (strcmp(form, "in-place") == 0)
    return MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, 1, type, MPI_COMM_WORLD);
  if (strcmp(form, "list") != 0) return MPI_Alltoall(send, 1, type, recv, 1, type, MPI_COMM_WORLD);
  for (int p = 0; p < size; ++p)
    counts[p] = 1, displs[p] = p * 2 * kElements * (int)sizeof(double), types[p] = type;
  return MPI_Alltoallw(send, counts, displs, types, recv, counts, displs, types, MPI_COMM_WORLD);
}

/* What MPI allocates once. */
static void warm(void) {
  static char from[kWarm], to[kWarm];
  int one[kMostRanks] = {0};
  MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, one, 1, MPI_INT, MPI_COMM_WORLD);
  for (int i = 1; i < size; ++i) {
    MPI_Sendrecv(from, kWarm, MPI_BYTE, (rank + i) % size, 0, to, kWarm, MPI_BYTE, (rank + size - i) % size,
                 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

static void limit(void) {
  long pages = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%ld", &pages) != 1) MPI_Abort(MPI_COMM_WORLD, 2);
  fclose(file);
  const struct rlimit most = {(rlim_t)pages * 4096 + kSpare, RLIM_INFINITY};
  if (setrlimit(RLIMIT_AS, &most) != 0) MPI_Abort(MPI_COMM_WORLD, 2);
}

static long wrong(const double* recv) {
  long bad = 0;
  for (int p = 0; p < size; ++p) {
    for (long i = 0; i < 2 * kElements; ++i) {
      const double got = recv[p * 2 * (long)kElements + i];
      if (i % 2 == 0) bad += got != p * 1e9 + rank * 2.0 * kElements + (double)i;
    }
  }
  return bad;
}

static void fill(double* send, double* recv, long all, int in_place) {
  for (long i = 0; i < all; ++i) send[i] = rank * 1e9 + (double)i, recv[i] = in_place ? send[i] : -1;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc < 2 || size > kMostRanks) MPI_Abort(MPI_COMM_WORLD, 2);
  const char* const form = argv[1];
  const int in_place = strcmp(form, "in-place") == 0;
  const long all = 2L * kElements * size;
  double *send = malloc((size_t)all * sizeof *send), *recv = malloc((size_t)all * sizeof *recv);
  if (send == NULL || recv == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  fill(send, recv, all, in_place);
  MPI_Datatype type = with_gaps(strcmp(form, "list") == 0);
  warm();
  if (argc < 3 || rank == 0) limit();
  long bad = 0;
  if (argc < 4) {
    exchange(form, send, recv, type);
  } else {
    const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    bad = exchange(form, send, recv, type) == MPI_SUCCESS ? wrong(recv) : 0;
    if (setrlimit(RLIMIT_AS, &none) != 0) MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    fill(send, recv, all, in_place);
    exchange(form, send, recv, type);
  }
  bad += wrong(recv);
  MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%s: %ld wrong\n", form, bad);
  MPI_Type_free(&type);
  free(send);
  free(recv);
  MPI_Finalize();
  return bad != 0;
}
