/* A communicator's error handler belongs to the program, also while one of its threads waits in an all-to-all
 * of blocks with gaps: another thread makes mistakes on that communicator, and sets another handler. Prints
 * how often each of the two was called. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { kNumbers = 4, kMostRanks = 16 };

static MPI_Comm comm;
static int rank, size, called[2], bad;

static void call_first(MPI_Comm* on, int* code, ...) {
  (void)on, (void)code;
  ++called[0];
}
static void call_second(MPI_Comm* on, int* code, ...) {
  (void)on, (void)code;
  ++called[1];
}

static void* exchange(void* unused) {
  int send[2 * kNumbers * kMostRanks], recv[2 * kNumbers * kMostRanks];
  MPI_Datatype list, type; /* every other number */
  (void)unused;
  MPI_Type_vector(kNumbers, 1, 2, MPI_INT, &list);
  MPI_Type_create_resized(list, 0, 2 * kNumbers * (MPI_Aint)sizeof(int), &type);
  MPI_Type_commit(&type);
  for (int i = 0; i < 2 * kNumbers * size; ++i) send[i] = 1000 * rank + i, recv[i] = -1;
  MPI_Alltoall(send, 1, type, recv, 1, type, comm);
  for (int i = 0; i < 2 * kNumbers * size; ++i) {
    const int block = 2 * kNumbers;
    bad += recv[i] != (i % 2 == 0 ? 1000 * (i / block) + rank * block + i % block : -1);
  }
  MPI_Type_free(&type);
  MPI_Type_free(&list);
  return NULL;
}

static void make_mistake(void) {
  int number = 0;
  MPI_Send(&number, 1, MPI_INT, size + 5, 0, comm);
}

/* Rank 0 comes to the all-to-all when the others are done with their mistakes. */
static void run(void) {
  MPI_Errhandler first, second;
  pthread_t thread;
  MPI_Comm_create_errhandler(call_first, &first);
  MPI_Comm_create_errhandler(call_second, &second);
  MPI_Comm_set_errhandler(comm, first);
  exchange(NULL);
  if (rank > 0) {
    pthread_create(&thread, NULL, exchange, NULL);
    usleep(200000); /* it is in the call then */
    make_mistake();
    MPI_Comm_set_errhandler(comm, second);
    make_mistake();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank > 0)
    pthread_join(thread, NULL);
  else
    exchange(NULL);
  make_mistake();
  MPI_Errhandler_free(&first);
  MPI_Errhandler_free(&second);
}

int main(int argc, char** argv) {
  int level;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size > kMostRanks) MPI_Abort(MPI_COMM_WORLD, 2);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  if (level == MPI_THREAD_MULTIPLE) run();
  int all[3] = {called[0], called[1], bad};
  MPI_Allreduce(MPI_IN_PLACE, all, 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("first handler %d, second %d, %d wrong\n", all[0], all[1], all[2]);
  MPI_Comm_free(&comm);
  MPI_Finalize();
  return 0;
}
