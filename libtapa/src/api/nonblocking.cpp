// The nonblocking entry points.
#include "api/entry.hpp"
#include "route/recall.hpp"
#include "run/error.hpp"
#include "run/own_mpi.hpp"
#include "tapa/tapa.h"

using namespace tapa;

extern "C" {

int TAPA_Ialltoall(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
                   MPI_Datatype recvtype, MPI_Comm comm, MPI_Request* request) {
  if (passes_nonblocking(sendbuf, recvbuf, comm)) {
    return in_mpi("TAPA_Ialltoall", [&] {
      return TAPA_OWN_MPI(PMPI_Ialltoall)(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
                                          request);
    });
  }
  return run_nonblocking(uniform_arguments("TAPA_Ialltoall", false, sendbuf, sendcount, sendtype, recvbuf,
                                           recvcount, recvtype, comm),
                         request);
}

int TAPA_Ialltoall_c(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                     MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Request* request) {
  return run_nonblocking(uniform_arguments("TAPA_Ialltoall_c", true, sendbuf, sendcount, sendtype, recvbuf,
                                           recvcount, recvtype, comm),
                         request);
}

int TAPA_Ialltoallv(const void* sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,
                    void* recvbuf, const int recvcounts[], const int rdispls[], MPI_Datatype recvtype,
                    MPI_Comm comm, MPI_Request* request) {
  if (passes_nonblocking(sendbuf, recvbuf, comm)) {
    return in_mpi("TAPA_Ialltoallv", [&] {
      return TAPA_OWN_MPI(PMPI_Ialltoallv)(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts,
                                           rdispls, recvtype, comm, request);
    });
  }
  return run_nonblocking(v_arguments("TAPA_Ialltoallv", sendbuf, sendcounts, sdispls, sendtype, recvbuf,
                                     recvcounts, rdispls, recvtype, comm),
                         request);
}

int TAPA_Ialltoallv_c(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                      MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
                      const MPI_Aint rdispls[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Request* request) {
  return run_nonblocking(v_arguments("TAPA_Ialltoallv_c", sendbuf, sendcounts, sdispls, sendtype, recvbuf,
                                     recvcounts, rdispls, recvtype, comm),
                         request);
}

int TAPA_Ialltoallw(const void* sendbuf, const int sendcounts[], const int sdispls[],
                    const MPI_Datatype sendtypes[], void* recvbuf, const int recvcounts[],
                    const int rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
                    MPI_Request* request) {
  if (passes_nonblocking(sendbuf, recvbuf, comm)) {
    return in_mpi("TAPA_Ialltoallw", [&] {
      return TAPA_OWN_MPI(PMPI_Ialltoallw)(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts,
                                           rdispls, recvtypes, comm, request);
    });
  }
  return run_nonblocking(w_arguments("TAPA_Ialltoallw", sendbuf, sendcounts, sdispls, sendtypes, recvbuf,
                                     recvcounts, rdispls, recvtypes, comm),
                         request);
}

int TAPA_Ialltoallw_c(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                      const MPI_Datatype sendtypes[], void* recvbuf, const MPI_Count recvcounts[],
                      const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
                      MPI_Request* request) {
  return run_nonblocking(w_arguments("TAPA_Ialltoallw_c", sendbuf, sendcounts, sdispls, sendtypes, recvbuf,
                                     recvcounts, rdispls, recvtypes, comm),
                         request);
}

}  // extern "C"
