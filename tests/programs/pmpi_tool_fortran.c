/* The same kind of tool for Fortran: Open MPI's Fortran entry points call C's PMPI_ names, so tools define
 * the Fortran names themselves. mpif.h and the module mpi call mpi_x_, the module mpi_f08 calls mpi_x_f08_;
 * both pass the same arguments. Knows nothing of libtapa. */
#include <mpi.h>
#include <stdio.h>

void pmpi_init_(MPI_Fint* error);
void pmpi_finalize_(MPI_Fint* error);
void pmpi_alltoall_(const void* send, const MPI_Fint* sendcount, const MPI_Fint* sendtype, void* recv,
                    const MPI_Fint* recvcount, const MPI_Fint* recvtype, const MPI_Fint* comm,
                    MPI_Fint* error);
void pmpi_alltoallv_(const void* send, const MPI_Fint* sendcounts, const MPI_Fint* sdispls,
                     const MPI_Fint* sendtype, void* recv, const MPI_Fint* recvcounts,
                     const MPI_Fint* rdispls, const MPI_Fint* recvtype, const MPI_Fint* comm,
                     MPI_Fint* error);
void pmpi_ialltoall_(const void* send, const MPI_Fint* sendcount, const MPI_Fint* sendtype, void* recv,
                     const MPI_Fint* recvcount, const MPI_Fint* recvtype, const MPI_Fint* comm,
                     MPI_Fint* request, MPI_Fint* error);

enum { init, alltoall, alltoallv, ialltoall, kCounters };
static const char* const names[kCounters] = {"mpi_init", "mpi_alltoall", "mpi_alltoallv", "mpi_ialltoall"};
static int counts[kCounters];

void mpi_init_(MPI_Fint* error) {
  ++counts[init];
  pmpi_init_(error);
}
void mpi_finalize_(MPI_Fint* error) {
  int rank, i;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0)
    for (i = 0; i < kCounters; ++i) printf("tool: %s %d\n", names[i], counts[i]);
  pmpi_finalize_(error);
}
void mpi_alltoall_(const void* send, const MPI_Fint* sendcount, const MPI_Fint* sendtype, void* recv,
                   const MPI_Fint* recvcount, const MPI_Fint* recvtype, const MPI_Fint* comm,
                   MPI_Fint* error) {
  ++counts[alltoall];
  pmpi_alltoall_(send, sendcount, sendtype, recv, recvcount, recvtype, comm, error);
}
void mpi_alltoallv_(const void* send, const MPI_Fint* sendcounts, const MPI_Fint* sdispls,
                    const MPI_Fint* sendtype, void* recv, const MPI_Fint* recvcounts, const MPI_Fint* rdispls,
                    const MPI_Fint* recvtype, const MPI_Fint* comm, MPI_Fint* error) {
  ++counts[alltoallv];
  pmpi_alltoallv_(send, sendcounts, sdispls, sendtype, recv, recvcounts, rdispls, recvtype, comm, error);
}
void mpi_ialltoall_(const void* send, const MPI_Fint* sendcount, const MPI_Fint* sendtype, void* recv,
                    const MPI_Fint* recvcount, const MPI_Fint* recvtype, const MPI_Fint* comm,
                    MPI_Fint* request, MPI_Fint* error) {
  ++counts[ialltoall];
  pmpi_ialltoall_(send, sendcount, sendtype, recv, recvcount, recvtype, comm, request, error);
}

#define ALSO_F08(name) void name##f08_() __attribute__((alias(#name)))
ALSO_F08(mpi_init_);
ALSO_F08(mpi_finalize_);
ALSO_F08(mpi_alltoall_);
ALSO_F08(mpi_alltoallv_);
ALSO_F08(mpi_ialltoall_);
