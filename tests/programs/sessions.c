/* Sessions (MPI 4, and Open MPI 5): all-to-alls of a program that has sessions only and never calls MPI_Init,
 * so that there is neither MPI_COMM_WORLD nor MPI_COMM_SELF. With argument "world" it calls MPI_Init, and the
 * datatypes are made with large counts. Some calls have large counts, where MPI has them (HAVE_LARGE_COUNT):
 * blocking, nonblocking and persistent ones. Prints the wrong elements of all ranks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "linked_names.h"
#ifdef USE_TAPA
#define MPI_Alltoall_init TAPA_Alltoall_init
#define MPI_Alltoall_c TAPA_Alltoall_c
#define MPI_Alltoallv_c TAPA_Alltoallv_c
#define MPI_Alltoallw_c TAPA_Alltoallw_c
#define MPI_Ialltoall_c TAPA_Ialltoall_c
#define MPI_Ialltoallv_c TAPA_Ialltoallv_c
#define MPI_Ialltoallw_c TAPA_Ialltoallw_c
#define MPI_Alltoall_init_c TAPA_Alltoall_init_c
#define MPI_Alltoallv_init_c TAPA_Alltoallv_init_c
#define MPI_Alltoallw_init_c TAPA_Alltoallw_init_c
#endif

enum { kMostRanks = 16, kElements = 4, kStride = 3, kBlock = kElements * kStride };

static int rank, size;

static int value(int source, int destination, int i) {
  return (source * 100 + destination) * 100 + i;
}

static int send[kMostRanks * kBlock], recv[kMostRanks * kBlock];

static void fill(void) {
  for (int p = 0; p < size; ++p) {
    for (int i = 0; i < kElements; ++i) send[p * kBlock + i * kStride] = value(rank, p, i);
  }
  memset(recv, -1, sizeof recv);
}

static int count_wrong(int code) {
  int wrong = code != MPI_SUCCESS;
  for (int p = 0; p < size; ++p) {
    for (int i = 0; i < kElements; ++i) wrong += recv[p * kBlock + i * kStride] != value(p, rank, i);
    for (int i = 0; i < kElements; ++i) wrong += recv[p * kBlock + i * kStride + 1] != -1;
  }
  return wrong;
}

static int run_persistent(MPI_Request* request) {
  int wrong = 0;
  for (int round = 0; round < 3; ++round) {
    fill();
    MPI_Start(request);
    wrong += count_wrong(MPI_Wait(request, MPI_STATUS_IGNORE));
  }
  MPI_Request_free(request);
  return wrong;
}

#ifdef HAVE_LARGE_COUNT
static int exchange_large(MPI_Datatype type, MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Count counts[kMostRanks];
  MPI_Aint displs[kMostRanks], bytes[kMostRanks];
  MPI_Datatype types[kMostRanks];
  int wrong = 0;
  for (int p = 0; p < size; ++p) {
    counts[p] = 1;
    displs[p] = p;
    bytes[p] = p * kBlock * (MPI_Aint)sizeof(int);
    types[p] = type;
  }
  for (int round = 0; round < 3; ++round) {
    fill();
    wrong += count_wrong(MPI_Alltoall_c(send, 1, type, recv, 1, type, comm));
    fill();
    wrong += count_wrong(MPI_Alltoallv_c(send, counts, displs, type, recv, counts, displs, type, comm));
    fill();
    wrong += count_wrong(MPI_Alltoallw_c(send, counts, bytes, types, recv, counts, bytes, types, comm));
    fill();
    MPI_Ialltoall_c(send, 1, type, recv, 1, type, comm, &request);
    wrong += count_wrong(MPI_Wait(&request, MPI_STATUS_IGNORE));
    fill();
    MPI_Ialltoallv_c(send, counts, displs, type, recv, counts, displs, type, comm, &request);
    wrong += count_wrong(MPI_Wait(&request, MPI_STATUS_IGNORE));
    fill();
    MPI_Ialltoallw_c(send, counts, bytes, types, recv, counts, bytes, types, comm, &request);
    wrong += count_wrong(MPI_Wait(&request, MPI_STATUS_IGNORE));
  }
  wrong += MPI_Alltoall_c(send, -1, type, recv, 1, type, comm) == MPI_SUCCESS;
  MPI_Alltoall_init_c(send, 1, type, recv, 1, type, comm, MPI_INFO_NULL, &request);
  wrong += run_persistent(&request);
  MPI_Alltoallv_init_c(send, counts, displs, type, recv, counts, displs, type, comm, MPI_INFO_NULL, &request);
  wrong += run_persistent(&request);
  MPI_Alltoallw_init_c(send, counts, bytes, types, recv, counts, bytes, types, comm, MPI_INFO_NULL, &request);
  return wrong + run_persistent(&request);
}
#endif

static int exchange(MPI_Datatype type, MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  int counts[kMostRanks], displs[kMostRanks];
  int wrong = 0;
  for (int p = 0; p < size; ++p) {
    counts[p] = 1;
    displs[p] = p;
  }
  for (int round = 0; round < 3; ++round) {
    fill();
    wrong += count_wrong(MPI_Alltoall(send, 1, type, recv, 1, type, comm));
    fill();
    wrong += count_wrong(MPI_Alltoallv(send, counts, displs, type, recv, counts, displs, type, comm));
    fill();
    MPI_Ialltoall(send, 1, type, recv, 1, type, comm, &request);
    wrong += count_wrong(MPI_Wait(&request, MPI_STATUS_IGNORE));
  }
  MPI_Alltoall_init(send, 1, type, recv, 1, type, comm, MPI_INFO_NULL, &request);
  wrong += run_persistent(&request);
#ifdef HAVE_LARGE_COUNT
  wrong += exchange_large(type, comm);
#endif
  wrong += MPI_Alltoall(send, -1, type, recv, 1, type, comm) == MPI_SUCCESS;
  return wrong;
}

static MPI_Datatype make_type(int large) {
  MPI_Datatype spread, type;
#ifdef HAVE_LARGE_COUNT
  if (large) {
    MPI_Type_vector_c(kElements, 1, kStride, MPI_INT, &spread);
    MPI_Type_create_resized_c(spread, 0, kBlock * sizeof(int), &type);
    MPI_Type_free(&spread);
    MPI_Type_commit(&type);
    return type;
  }
#endif
  (void)large;
  MPI_Type_vector(kElements, 1, kStride, MPI_INT, &spread);
  MPI_Type_create_resized(spread, 0, kBlock * sizeof(int), &type);
  MPI_Type_free(&spread);
  MPI_Type_commit(&type);
  return type;
}

int main(int argc, char** argv) {
  const int world = argc > 1 && strcmp(argv[1], "world") == 0;
  int wrong = 0, all = 0;
  MPI_Session session = MPI_SESSION_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm comm;
  if (world) {
    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  } else {
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "tapa.sessions", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    MPI_Group_free(&group);
  }
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  if (size > kMostRanks) MPI_Abort(comm, 2);
  MPI_Datatype type = make_type(world);
  wrong = exchange(type, comm);
  MPI_Type_free(&type);
  MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, comm);
  if (rank == 0) printf("%s: %d wrong\n", world ? "types of large counts" : "sessions", all);
  MPI_Comm_free(&comm);
  if (world)
    MPI_Finalize();
  else
    MPI_Session_finalize(&session);
  return wrong != 0;
}
