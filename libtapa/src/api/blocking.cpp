// The blocking entry points.
#include "api/entry.hpp"
#include "route/recall.hpp"
#include "run/error.hpp"
#include "run/own_mpi.hpp"
#include "tapa/tapa.h"

using namespace tapa;

extern "C" {

int TAPA_Alltoall(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
                  MPI_Datatype recvtype, MPI_Comm comm) {
  if (passes(Form::uniform, sendbuf, sendtype, recvbuf, recvtype, comm)) {
    return in_mpi("TAPA_Alltoall", [&] {
      return TAPA_OWN_MPI(PMPI_Alltoall)(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
    });
  }
  return run_blocking(uniform_arguments("TAPA_Alltoall", false, sendbuf, sendcount, sendtype, recvbuf,
                                        recvcount, recvtype, comm));
}

int TAPA_Alltoall_c(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                    MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
  return run_blocking(uniform_arguments("TAPA_Alltoall_c", true, sendbuf, sendcount, sendtype, recvbuf,
                                        recvcount, recvtype, comm));
}

int TAPA_Alltoallv(const void* sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,
                   void* recvbuf, const int recvcounts[], const int rdispls[], MPI_Datatype recvtype,
                   MPI_Comm comm) {
  if (passes(Form::v, sendbuf, sendtype, recvbuf, recvtype, comm)) {
    return in_mpi("TAPA_Alltoallv", [&] {
      return TAPA_OWN_MPI(PMPI_Alltoallv)(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts,
                                          rdispls, recvtype, comm);
    });
  }
  return run_blocking(v_arguments("TAPA_Alltoallv", sendbuf, sendcounts, sdispls, sendtype, recvbuf,
                                  recvcounts, rdispls, recvtype, comm));
}

int TAPA_Alltoallv_c(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                     MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
                     const MPI_Aint rdispls[], MPI_Datatype recvtype, MPI_Comm comm) {
  return run_blocking(v_arguments("TAPA_Alltoallv_c", sendbuf, sendcounts, sdispls, sendtype, recvbuf,
                                  recvcounts, rdispls, recvtype, comm));
}

int TAPA_Alltoallw(const void* sendbuf, const int sendcounts[], const int sdispls[],
                   const MPI_Datatype sendtypes[], void* recvbuf, const int recvcounts[], const int rdispls[],
                   const MPI_Datatype recvtypes[], MPI_Comm comm) {
  return run_blocking(w_arguments("TAPA_Alltoallw", sendbuf, sendcounts, sdispls, sendtypes, recvbuf,
                                  recvcounts, rdispls, recvtypes, comm));
}

int TAPA_Alltoallw_c(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                     const MPI_Datatype sendtypes[], void* recvbuf, const MPI_Count recvcounts[],
                     const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm) {
  return run_blocking(w_arguments("TAPA_Alltoallw_c", sendbuf, sendcounts, sdispls, sendtypes, recvbuf,
                                  recvcounts, rdispls, recvtypes, comm));
}

}  // extern "C"
