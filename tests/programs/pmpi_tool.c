/* A tool as performance engineers use them: counts the program's calls of some MPI functions by their
 * profiling interface, and rank 0 prints the numbers when MPI ends. Knows nothing of libtapa. */
#include <mpi.h>
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
  kCounters
};
static const char* const names[kCounters] = {
    "MPI_Init",      "MPI_Init_thread", "MPI_Comm_dup",   "MPI_Comm_split", "MPI_Alltoall",  "MPI_Alltoallv",
    "MPI_Alltoallw", "MPI_Ialltoall",   "MPI_Ialltoallv", "MPI_Isend",      "MPI_Irecv",     "MPI_Barrier",
    "MPI_Allreduce", "MPI_Iallreduce",  "MPI_Bcast",      "MPI_Gather",     "MPI_Alloc_mem", "MPI_Free_mem",
    "MPI_Wait",      "MPI_Test",        "MPI_Comm_rank"};
static int counts[kCounters];

int MPI_Init(int* argc, char*** argv) {
  ++counts[init];
  return PMPI_Init(argc, argv);
}
int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  ++counts[init_thread];
  return PMPI_Init_thread(argc, argv, required, provided);
}
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* copy) {
  ++counts[comm_dup];
  return PMPI_Comm_dup(comm, copy);
}
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* part) {
  ++counts[comm_split];
  return PMPI_Comm_split(comm, color, key, part);
}
int MPI_Alltoall(const void* send, int sendcount, MPI_Datatype sendtype, void* recv, int recvcount,
                 MPI_Datatype recvtype, MPI_Comm comm) {
  ++counts[alltoall];
  return PMPI_Alltoall(send, sendcount, sendtype, recv, recvcount, recvtype, comm);
}
int MPI_Alltoallv(const void* send, const int* sendcounts, const int* sdispls, MPI_Datatype sendtype,
                  void* recv, const int* recvcounts, const int* rdispls, MPI_Datatype recvtype,
                  MPI_Comm comm) {
  ++counts[alltoallv];
  return PMPI_Alltoallv(send, sendcounts, sdispls, sendtype, recv, recvcounts, rdispls, recvtype, comm);
}
int MPI_Alltoallw(const void* send, const int* sendcounts, const int* sdispls, const MPI_Datatype* sendtypes,
                  void* recv, const int* recvcounts, const int* rdispls, const MPI_Datatype* recvtypes,
                  MPI_Comm comm) {
  ++counts[alltoallw];
  return PMPI_Alltoallw(send, sendcounts, sdispls, sendtypes, recv, recvcounts, rdispls, recvtypes, comm);
}
int MPI_Ialltoall(const void* send, int sendcount, MPI_Datatype sendtype, void* recv, int recvcount,
                  MPI_Datatype recvtype, MPI_Comm comm, MPI_Request* request) {
  ++counts[ialltoall];
  return PMPI_Ialltoall(send, sendcount, sendtype, recv, recvcount, recvtype, comm, request);
}
int MPI_Ialltoallv(const void* send, const int* sendcounts, const int* sdispls, MPI_Datatype sendtype,
                   void* recv, const int* recvcounts, const int* rdispls, MPI_Datatype recvtype,
                   MPI_Comm comm, MPI_Request* request) {
  ++counts[ialltoallv];
  return PMPI_Ialltoallv(send, sendcounts, sdispls, sendtype, recv, recvcounts, rdispls, recvtype, comm,
                         request);
}
int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  ++counts[isend];
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}
int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request* request) {
  ++counts[irecv];
  return PMPI_Irecv(data, count, type, from, tag, comm, request);
}
int MPI_Barrier(MPI_Comm comm) {
  ++counts[barrier];
  return PMPI_Barrier(comm);
}
int MPI_Allreduce(const void* mine, void* all, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  ++counts[allreduce];
  return PMPI_Allreduce(mine, all, count, type, op, comm);
}
int MPI_Iallreduce(const void* mine, void* all, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  ++counts[iallreduce];
  return PMPI_Iallreduce(mine, all, count, type, op, comm, request);
}
int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  ++counts[bcast];
  return PMPI_Bcast(data, count, type, root, comm);
}
int MPI_Gather(const void* send, int sendcount, MPI_Datatype sendtype, void* recv, int recvcount,
               MPI_Datatype recvtype, int root, MPI_Comm comm) {
  ++counts[gather];
  return PMPI_Gather(send, sendcount, sendtype, recv, recvcount, recvtype, root, comm);
}
int MPI_Alloc_mem(MPI_Aint size, MPI_Info info, void* base) {
  ++counts[alloc_mem];
  return PMPI_Alloc_mem(size, info, base);
}
int MPI_Free_mem(void* base) {
  ++counts[free_mem];
  return PMPI_Free_mem(base);
}
int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  ++counts[wait];
  return PMPI_Wait(request, status);
}
int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  ++counts[test];
  return PMPI_Test(request, flag, status);
}
int MPI_Comm_rank(MPI_Comm comm, int* rank) {
  ++counts[comm_rank];
  return PMPI_Comm_rank(comm, rank);
}
int MPI_Finalize(void) {
  int rank, i;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0)
    for (i = 0; i < kCounters; ++i) printf("tool: %s %d\n", names[i], counts[i]);
  return PMPI_Finalize();
}
