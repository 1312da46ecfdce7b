/* What MPI lets pass although it should not: a send buffer that is the receive buffer, blocks shorter than
 * their receiver expects; and what is legal but looks wrong: a group of an intercommunicator that sends
 * nothing. Prints the wrong elements of all ranks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "linked_names.h"

enum { kMost = 40000 };

static int rank, size;

static int value(int source, int destination, int i) {
  return (source * 100 + destination) * 100000 + i;
}

static int* room(size_t ints) {
  int* memory = malloc((ints + 1) * sizeof(int));
  if (memory == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  return memory;
}

static void say(const char* what, int wrong, int* total) {
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%s: %d wrong\n", what, wrong);
  *total += wrong;
}

/* Ranks up to `most` give one buffer for both. */
static int equal_buffers(int count, int most, int nonblocking) {
  int wrong = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  int* send = room((size_t)(size * count));
  int* own = room((size_t)(size * count));
  int* recv = rank <= most ? send : own;
  for (int p = 0; p < size; ++p) {
    for (int i = 0; i < count; ++i) send[p * count + i] = value(rank, p, i);
  }
  if (nonblocking)
    MPI_Ialltoall(send, count, MPI_INT, recv, count, MPI_INT, MPI_COMM_WORLD, &request);
  else
    MPI_Alltoall(send, count, MPI_INT, recv, count, MPI_INT, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (int p = 0; p < size; ++p) {
    for (int i = 0; i < count; ++i) wrong += recv[p * count + i] != value(p, rank, i);
  }
  free(send);
  free(own);
  return wrong;
}

/* The two halves of one buffer are no aliases. */
static int halves_of_one(int count) {
  int wrong = 0;
  int counts[64], sdispls[64], rdispls[64];
  int* both = room((size_t)(2 * size * count));
  for (int p = 0; p < size; ++p) {
    counts[p] = count;
    sdispls[p] = p * count;
    rdispls[p] = (size + p) * count;
    for (int i = 0; i < count; ++i) both[sdispls[p] + i] = value(rank, p, i);
  }
  MPI_Alltoallv(both, counts, sdispls, MPI_INT, both, counts, rdispls, MPI_INT, MPI_COMM_WORLD);
  for (int p = 0; p < size; ++p) {
    for (int i = 0; i < count; ++i) wrong += both[rdispls[p] + i] != value(p, rank, i);
    for (int i = 0; i < count; ++i) wrong += both[sdispls[p] + i] != value(rank, p, i);
  }
  free(both);
  return wrong;
}

/* Rank r sends r % 2 ints fewer than all others expect, but to itself. */
static int short_blocks(int count, MPI_Datatype recvtype, int per_element, int step) {
  int wrong = 0;
  int sendcounts[64], recvcounts[64], sdispls[64], rdispls[64];
  int* send = room((size_t)(size * count));
  int* recv = room((size_t)(size * count * step));
  for (int p = 0; p < size; ++p) {
    sendcounts[p] = p == rank ? count : count - rank % 2;
    recvcounts[p] = count / per_element;
    sdispls[p] = p * count;
    rdispls[p] = p * (count / per_element);
    for (int i = 0; i < count; ++i) send[sdispls[p] + i] = value(rank, p, i);
  }
  for (int i = 0; i < size * count * step; ++i) recv[i] = -1;
  MPI_Alltoallv(send, sendcounts, sdispls, MPI_INT, recv, recvcounts, rdispls, recvtype, MPI_COMM_WORLD);
  for (int p = 0; p < size; ++p) {
    const int got = p == rank ? count : count - p % 2;
    for (int i = 0; i < count; ++i)
      wrong += recv[(p * count + i) * step] != (i < got ? value(p, rank, i) : -1);
  }
  free(send);
  free(recv);
  return wrong;
}

/* Each rank sends an int to the next, and expects some of the one before that as well. Often, as calls with
 * few blocks go another way then. */
static int silence(int calls) {
  int wrong = 0;
  int sendcounts[64] = {0}, recvcounts[64] = {0}, displs[64], send[64], recv[64];
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  for (int p = 0; p < size; ++p) displs[p] = p;
  sendcounts[next] = recvcounts[before] = recvcounts[(rank + size - 2) % size] = 1;
  for (int call = 0; call < calls; ++call) {
    for (int p = 0; p < size; ++p) send[p] = value(rank, p, call), recv[p] = -1;
    MPI_Alltoallv(send, sendcounts, displs, MPI_INT, recv, recvcounts, displs, MPI_INT, MPI_COMM_WORLD);
    for (int p = 0; p < size; ++p) wrong += recv[p] != (p == before ? value(p, rank, call) : -1);
  }
  return wrong;
}

/* The odd ranks send `count` ints to each even one; these send nothing. */
static int one_way(MPI_Comm inter, int count) {
  const int sends = rank % 2;
  int wrong = 0, others;
  MPI_Comm_remote_size(inter, &others);
  int* send = room((size_t)(others * count));
  int* recv = room((size_t)(others * count));
  for (int p = 0; p < others; ++p) {
    for (int i = 0; i < count; ++i) send[p * count + i] = value(rank, 2 * p, i);
  }
  for (int i = 0; i < others * count; ++i) recv[i] = -1;
  MPI_Alltoall(send, sends ? count : 0, MPI_INT, recv, sends ? 0 : count, MPI_INT, inter);
  for (int p = 0; p < others; ++p) {
    for (int i = 0; i < count; ++i) wrong += recv[p * count + i] != (sends ? -1 : value(2 * p + 1, rank, i));
  }
  free(send);
  free(recv);
  return wrong;
}

int main(int argc, char** argv) {
  static const int counts[] = {4, 100, 5000, kMost};
  int total = 0;
  MPI_Comm half, inter;
  MPI_Datatype spread, few, four;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size > 64) MPI_Abort(MPI_COMM_WORLD, 2);
  if (argc > 1 && strcmp(argv[1], "silence") == 0) {
    say("nothing of some", silence(200), &total);
    MPI_Finalize();
    return total != 0;
  }
  MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spread);
  MPI_Type_commit(&spread);
  MPI_Type_vector(4, 1, 2, MPI_INT, &few);
  MPI_Type_create_resized(few, 0, 8 * sizeof(int), &four);
  MPI_Type_commit(&four);
  for (int i = 0; i < 4; ++i) {
    const int count = counts[i];
    say("equal buffers", equal_buffers(count, size, 0), &total);
    say("equal buffers on rank 0", equal_buffers(count, 0, 0), &total);
#ifdef OPEN_MPI /* MPICH refuses that, and nonblocking calls before the set-up are its own */
    say("equal buffers, nonblocking", equal_buffers(count, size, 1), &total);
#endif
    say("halves of one buffer", halves_of_one(count), &total);
    if (argc > 1 && strcmp(argv[1], "equal") == 0) continue;
    say("short blocks", short_blocks(count, MPI_INT, 1, 1), &total);
    say("short blocks, spread", short_blocks(count, spread, 1, 2), &total);
    say("short blocks, last element in part", short_blocks(count, four, 4, 2), &total);
  }
  MPI_Type_free(&four);
  MPI_Type_free(&few);
  MPI_Type_free(&spread);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 11, &inter);
  say("one way between two groups", one_way(inter, 3), &total);
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
  MPI_Finalize();
  return total != 0;
}
