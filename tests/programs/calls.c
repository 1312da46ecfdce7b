/* Every all-to-all call that a C program can make, on several communicators, with known data: prints one line
 * for each case (name, calls, wrong elements, checksum over all ranks). Knows nothing of libtapa. Exit status
 * 1 when data is wrong. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "persistent.h"

enum { kRepeats = 3, kGuard = -7 };

/* One communicator and its buffers: ragged blocks, block s -> d has (s + 2 d) % 5 + 1 elements. */
typedef struct {
  MPI_Comm comm;
  int rank, peers; /* peers: size of the group that is sent to */
  int *sendcounts, *recvcounts, *sdispls, *rdispls, *byte_sdispls, *byte_rdispls;
  int *send, *recv;
  int sendtotal, recvtotal;
  MPI_Datatype* types;
} Case;

static int wrong_everywhere = 0;

static int ragged(int source, int destination) {
  return (source + 2 * destination) % 5 + 1;
}
static int value(int source, int destination, int i, int round) {
  return ((source * 131 + destination) * 17 + i) * 7 + round;
}

static void* room(size_t count, size_t size) {
  void* memory = calloc(count > 0 ? count : 1, size);
  if (memory == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  return memory;
}

/* count > 0: all blocks have that many elements; 0: ragged. */
static Case make_case(MPI_Comm comm, int count) {
  Case c;
  int inter = 0;
  size_t n;
  memset(&c, 0, sizeof c);
  c.comm = comm;
  MPI_Comm_rank(comm, &c.rank);
  MPI_Comm_test_inter(comm, &inter);
  if (inter)
    MPI_Comm_remote_size(comm, &c.peers);
  else
    MPI_Comm_size(comm, &c.peers);
  n = (size_t)c.peers;
  c.sendcounts = room(n, sizeof(int));
  c.recvcounts = room(n, sizeof(int));
  c.sdispls = room(n, sizeof(int));
  c.rdispls = room(n, sizeof(int));
  c.byte_sdispls = room(n, sizeof(int));
  c.byte_rdispls = room(n, sizeof(int));
  c.types = room(n, sizeof(MPI_Datatype));
  for (int p = 0; p < c.peers; ++p) {
    c.sendcounts[p] = count > 0 ? count : ragged(c.rank, p);
    c.recvcounts[p] = count > 0 ? count : ragged(p, c.rank);
    c.sdispls[p] = c.sendtotal;
    c.rdispls[p] = c.recvtotal;
    c.byte_sdispls[p] = c.sendtotal * (int)sizeof(int);
    c.byte_rdispls[p] = c.recvtotal * (int)sizeof(int);
    c.types[p] = MPI_INT;
    c.sendtotal += c.sendcounts[p];
    c.recvtotal += c.recvcounts[p];
  }
  c.send = room((size_t)c.sendtotal, sizeof(int));
  c.recv = room((size_t)c.recvtotal + 1, sizeof(int));
  return c;
}

static void free_case(Case* c) {
  free(c->sendcounts);
  free(c->recvcounts);
  free(c->sdispls);
  free(c->rdispls);
  free(c->byte_sdispls);
  free(c->byte_rdispls);
  free(c->types);
  free(c->send);
  free(c->recv);
}

static void fill(Case* c, int round) {
  for (int p = 0; p < c->peers; ++p) {
    for (int i = 0; i < c->sendcounts[p]; ++i) c->send[c->sdispls[p] + i] = value(c->rank, p, i, round);
  }
  for (int i = 0; i <= c->recvtotal; ++i) c->recv[i] = kGuard;
}

/* In place: what is received replaces what was sent. */
static void fill_in_place(Case* c, int round) {
  fill(c, round);
  memcpy(c->recv, c->send, (size_t)c->sendtotal * sizeof(int));
}

static int count_wrong(const Case* c, int round) {
  int wrong = c->recv[c->recvtotal] != kGuard;
  for (int p = 0; p < c->peers; ++p) {
    for (int i = 0; i < c->recvcounts[p]; ++i) {
      wrong += c->recv[c->rdispls[p] + i] != value(p, c->rank, i, round);
    }
  }
  return wrong;
}

static void report(const char* name, const Case* c, int wrong) {
  long long mine[2] = {wrong, 0};
  long long all[2] = {0, 0};
  int world_rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  for (int i = 0; i < c->recvtotal; ++i) mine[1] += (long long)c->recv[i] * (i % 97 + world_rank + 1);
  MPI_Reduce(mine, all, 2, MPI_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (world_rank == 0) printf("%-28s wrong %lld checksum %lld\n", name, all[0], all[1]);
  wrong_everywhere += wrong;
}

typedef enum { UNIFORM, RAGGED, TYPED } Kind;
typedef enum { BLOCKING, IN_PLACE, NONBLOCKING, PERSISTENT } Manner;

static int started(const Case* c, Kind kind, Manner manner, MPI_Request* request) {
  const void* send = manner == IN_PLACE ? MPI_IN_PLACE : c->send;
  const int n = c->sendcounts[0];
  const int m = c->recvcounts[0];
  switch (manner) {
    case BLOCKING:
    case IN_PLACE:
      if (kind == UNIFORM) return MPI_Alltoall(send, n, MPI_INT, c->recv, m, MPI_INT, c->comm);
      if (kind == RAGGED) {
        return MPI_Alltoallv(send, c->sendcounts, c->sdispls, MPI_INT, c->recv, c->recvcounts, c->rdispls,
                             MPI_INT, c->comm);
      }
      return MPI_Alltoallw(send, c->sendcounts, c->byte_sdispls, c->types, c->recv, c->recvcounts,
                           c->byte_rdispls, c->types, c->comm);
    case NONBLOCKING:
      if (kind == UNIFORM) return MPI_Ialltoall(send, n, MPI_INT, c->recv, m, MPI_INT, c->comm, request);
      if (kind == RAGGED) {
        return MPI_Ialltoallv(send, c->sendcounts, c->sdispls, MPI_INT, c->recv, c->recvcounts, c->rdispls,
                              MPI_INT, c->comm, request);
      }
      return MPI_Ialltoallw(send, c->sendcounts, c->byte_sdispls, c->types, c->recv, c->recvcounts,
                            c->byte_rdispls, c->types, c->comm, request);
    case PERSISTENT:
#ifdef Alltoall_init
      if (kind == UNIFORM) {
        return Alltoall_init(send, n, MPI_INT, c->recv, m, MPI_INT, c->comm, MPI_INFO_NULL, request);
      }
      if (kind == RAGGED) {
        return Alltoallv_init(send, c->sendcounts, c->sdispls, MPI_INT, c->recv, c->recvcounts, c->rdispls,
                              MPI_INT, c->comm, MPI_INFO_NULL, request);
      }
      return Alltoallw_init(send, c->sendcounts, c->byte_sdispls, c->types, c->recv, c->recvcounts,
                            c->byte_rdispls, c->types, c->comm, MPI_INFO_NULL, request);
#endif
      break;
  }
  return MPI_ERR_OTHER;
}

static void run(const char* name, MPI_Comm comm, int count, Kind kind, Manner manner) {
  MPI_Request request = MPI_REQUEST_NULL;
  int wrong = 0;
  Case c = make_case(comm, count);
  if (manner == PERSISTENT) wrong += started(&c, kind, manner, &request) != MPI_SUCCESS;
  for (int round = 0; round < kRepeats; ++round) {
    if (manner == IN_PLACE)
      fill_in_place(&c, round);
    else
      fill(&c, round);
    if (manner == PERSISTENT)
      MPI_Start(&request);
    else
      wrong += started(&c, kind, manner, &request) != MPI_SUCCESS;
    if (round % 2 == 0) {
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
      int done = 0;
      while (!done) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    }
    wrong += count_wrong(&c, round);
  }
  if (manner == PERSISTENT) MPI_Request_free(&request);
  report(name, &c, wrong);
  free_case(&c);
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    int count;
    Kind kind;
    Manner manner;
  } cases[] = {
      {"alltoall", 1, UNIFORM, BLOCKING},          {"alltoall-512", 512, UNIFORM, BLOCKING},
      {"alltoall-in-place", 5, UNIFORM, IN_PLACE}, {"alltoallv", 0, RAGGED, BLOCKING},
      {"alltoallv-in-place", 3, RAGGED, IN_PLACE}, {"alltoallw", 0, TYPED, BLOCKING},
      {"alltoallw-in-place", 3, TYPED, IN_PLACE},  {"ialltoall", 4, UNIFORM, NONBLOCKING},
      {"ialltoallv", 0, RAGGED, NONBLOCKING},      {"ialltoallw", 0, TYPED, NONBLOCKING},
#ifdef Alltoall_init
      {"alltoall_init", 4, UNIFORM, PERSISTENT},   {"alltoallv_init", 0, RAGGED, PERSISTENT},
      {"alltoallw_init", 0, TYPED, PERSISTENT},
#endif
  };
  const int n = (int)(sizeof cases / sizeof cases[0]);
  MPI_Comm reversed, half, inter;
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &reversed);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  for (int i = 0; i < n; ++i)
    run(cases[i].name, MPI_COMM_WORLD, cases[i].count, cases[i].kind, cases[i].manner);
  run("alltoallv of reversed ranks", reversed, 0, RAGGED, BLOCKING);
  run("alltoall of every second", half, 2, UNIFORM, BLOCKING);
  run("ialltoallv of every second", half, 0, RAGGED, NONBLOCKING);
  run("alltoall of self", MPI_COMM_SELF, 2, UNIFORM, BLOCKING);
  if (size > 1) {
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 == 0 ? 1 : 0, 11, &inter);
    run("alltoall of two groups", inter, 2, UNIFORM, BLOCKING);
    run("alltoallv of two groups", inter, 0, RAGGED, BLOCKING);
    MPI_Comm_free(&inter);
  }
  MPI_Comm_free(&half);
  MPI_Comm_free(&reversed);
  MPI_Finalize();
  return wrong_everywhere != 0;
}
