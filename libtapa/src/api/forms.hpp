/// @file
/// The parameters of MPI's all-to-alls, by form, and as arguments: written once for libtapa's entry points
/// and for the drop-in's. COUNT and OFFSET: int, or MPI_Count and MPI_Aint.
#pragma once

#define TAPA_UNIFORM(COUNT)                                                                    \
  const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, COUNT recvcount, \
      MPI_Datatype recvtype, MPI_Comm comm
#define TAPA_VECTOR(COUNT, OFFSET)                                                              \
  const void *sendbuf, const COUNT sendcounts[], const OFFSET sdispls[], MPI_Datatype sendtype, \
      void *recvbuf, const COUNT recvcounts[], const OFFSET rdispls[], MPI_Datatype recvtype, MPI_Comm comm
#define TAPA_TYPED(COUNT, OFFSET)                                                                        \
  const void *sendbuf, const COUNT sendcounts[], const OFFSET sdispls[], const MPI_Datatype sendtypes[], \
      void *recvbuf, const COUNT recvcounts[], const OFFSET rdispls[], const MPI_Datatype recvtypes[],   \
      MPI_Comm comm
#define TAPA_UNIFORM_ARGUMENTS sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm
#define TAPA_VECTOR_ARGUMENTS \
  sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm
#define TAPA_TYPED_ARGUMENTS \
  sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm
