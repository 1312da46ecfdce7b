/* A program that uses MPI by a session alone, without MPI_Init. Prints how many elements were wrong. */
#include <mpi.h>
#include <stdio.h>

enum { kMostRanks = 64 };

int main(void) {
  int send[kMostRanks], recv[kMostRanks];
  int rank, size, wrong = 0;
  MPI_Session session;
  MPI_Group group;
  MPI_Comm comm;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  MPI_Comm_create_from_group(group, "sessions", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  if (size > kMostRanks) MPI_Abort(comm, 2);
  for (int i = 0; i < size; ++i) send[i] = 100 * rank + i;
  for (int call = 0; call < 5; ++call) {
    MPI_Alltoall(send, 1, MPI_INT, recv, 1, MPI_INT, comm);
    for (int i = 0; i < size; ++i) wrong += recv[i] != 100 * i + rank;
  }
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, comm);
  if (rank == 0) printf("sessions: %d wrong\n", wrong);
  MPI_Group_free(&group);
  MPI_Comm_free(&comm);
  MPI_Session_finalize(&session);
  return wrong != 0;
}
