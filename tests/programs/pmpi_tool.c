/* A tool as performance engineers use them: counts the program's calls of some MPI functions by their
 * profiling interface, and rank 0 prints the numbers when MPI ends. With BY_NEXT it does not call the PMPI_
 * names but what stands behind it under the MPI_ ones. Knows nothing of libtapa. */
#ifdef BY_NEXT
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#define NEXT(NAME) ((__typeof__(&NAME))dlsym(RTLD_NEXT, #NAME))
static const char tool[] = "next ";
#else
#include <mpi.h>
#define NEXT(NAME) P##NAME
static const char tool[] = "";
#endif
#include <stdio.h>

enum {
  init,
  init_thread,
  comm_dup,
  comm_split,
  alltoall,
  alltoallv,
  alltoallw,
  ialltoall,
  ialltoallv,
  isend,
  irecv,
  barrier,
  allreduce,
  iallreduce,
  bcast,
  gather,
  alloc_mem,
  free_mem,
  wait,
  test,
  comm_rank,
  neighbor_alltoall,
  kCounters
};
static const char* const names[kCounters] = {
    "MPI_Init",      "MPI_Init_thread",      "MPI_Comm_dup",  "MPI_Comm_split", "MPI_Alltoall",
    "MPI_Alltoallv", "MPI_Alltoallw",        "MPI_Ialltoall", "MPI_Ialltoallv", "MPI_Isend",
    "MPI_Irecv",     "MPI_Barrier",          "MPI_Allreduce", "MPI_Iallreduce", "MPI_Bcast",
    "MPI_Gather",    "MPI_Alloc_mem",        "MPI_Free_mem",  "MPI_Wait",       "MPI_Test",
    "MPI_Comm_rank", "MPI_Neighbor_alltoall"};
static int counts[kCounters];

int MPI_Init(int* argc, char*** argv) {
  ++counts[init];
  return NEXT(MPI_Init)(argc, argv);
}
int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  ++counts[init_thread];
  return NEXT(MPI_Init_thread)(argc, argv, required, provided);
}
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* copy) {
  ++counts[comm_dup];
  return NEXT(MPI_Comm_dup)(comm, copy);
}
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* part) {
  ++counts[comm_split];
  return NEXT(MPI_Comm_split)(comm, color, key, part);
}
int MPI_Alltoall(const void* send, int sendcount, MPI_Datatype sendtype, void* recv, int recvcount,
                 MPI_Datatype recvtype, MPI_Comm comm) {
  ++counts[alltoall];
  return NEXT(MPI_Alltoall)(send, sendcount, sendtype, recv, recvcount, recvtype, comm);
}
int MPI_Neighbor_alltoall(const void* send, int sendcount, MPI_Datatype sendtype, void* recv, int recvcount,
                          MPI_Datatype recvtype, MPI_Comm comm) {
  ++counts[neighbor_alltoall];
  return NEXT(MPI_Neighbor_alltoall)(send, sendcount, sendtype, recv, recvcount, recvtype, comm);
}
int MPI_Alltoallv(const void* send, const int* sendcounts, const int* sdispls, MPI_Datatype sendtype,
                  void* recv, const int* recvcounts, const int* rdispls, MPI_Datatype recvtype,
                  MPI_Comm comm) {
  ++counts[alltoallv];
  return NEXT(MPI_Alltoallv)(send, sendcounts, sdispls, sendtype, recv, recvcounts, rdispls, recvtype, comm);
}
int MPI_Alltoallw(const void* send, const int* sendcounts, const int* sdispls, const MPI_Datatype* sendtypes,
                  void* recv, const int* recvcounts, const int* rdispls, const MPI_Datatype* recvtypes,
                  MPI_Comm comm) {
  ++counts[alltoallw];
  return NEXT(MPI_Alltoallw)(send, sendcounts, sdispls, sendtypes, recv, recvcounts, rdispls, recvtypes,
                             comm);
}
int MPI_Ialltoall(const void* send, int sendcount, MPI_Datatype sendtype, void* recv, int recvcount,
                  MPI_Datatype recvtype, MPI_Comm comm, MPI_Request* request) {
  ++counts[ialltoall];
  return NEXT(MPI_Ialltoall)(send, sendcount, sendtype, recv, recvcount, recvtype, comm, request);
}
int MPI_Ialltoallv(const void* send, const int* sendcounts, const int* sdispls, MPI_Datatype sendtype,
                   void* recv, const int* recvcounts, const int* rdispls, MPI_Datatype recvtype,
                   MPI_Comm comm, MPI_Request* request) {
  ++counts[ialltoallv];
  return NEXT(MPI_Ialltoallv)(send, sendcounts, sdispls, sendtype, recv, recvcounts, rdispls, recvtype, comm,
                              request);
}
int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  ++counts[isend];
  return NEXT(MPI_Isend)(data, count, type, to, tag, comm, request);
}
int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request* request) {
  ++counts[irecv];
  return NEXT(MPI_Irecv)(data, count, type, from, tag, comm, request);
}
int MPI_Barrier(MPI_Comm comm) {
  ++counts[barrier];
  return NEXT(MPI_Barrier)(comm);
}
int MPI_Allreduce(const void* mine, void* all, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  ++counts[allreduce];
  return NEXT(MPI_Allreduce)(mine, all, count, type, op, comm);
}
int MPI_Iallreduce(const void* mine, void* all, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  ++counts[iallreduce];
  return NEXT(MPI_Iallreduce)(mine, all, count, type, op, comm, request);
}
int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  ++counts[bcast];
  return NEXT(MPI_Bcast)(data, count, type, root, comm);
}
int MPI_Gather(const void* send, int sendcount, MPI_Datatype sendtype, void* recv, int recvcount,
               MPI_Datatype recvtype, int root, MPI_Comm comm) {
  ++counts[gather];
  return NEXT(MPI_Gather)(send, sendcount, sendtype, recv, recvcount, recvtype, root, comm);
}
int MPI_Alloc_mem(MPI_Aint size, MPI_Info info, void* base) {
  ++counts[alloc_mem];
  return NEXT(MPI_Alloc_mem)(size, info, base);
}
int MPI_Free_mem(void* base) {
  ++counts[free_mem];
  return NEXT(MPI_Free_mem)(base);
}
int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  ++counts[wait];
  return NEXT(MPI_Wait)(request, status);
}
int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  ++counts[test];
  return NEXT(MPI_Test)(request, flag, status);
}
int MPI_Comm_rank(MPI_Comm comm, int* rank) {
  ++counts[comm_rank];
  return NEXT(MPI_Comm_rank)(comm, rank);
}
int MPI_Finalize(void) {
  int rank, i;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0)
    for (i = 0; i < kCounters; ++i) printf("tool: %s%s %d\n", tool, names[i], counts[i]);
  return NEXT(MPI_Finalize)();
}
