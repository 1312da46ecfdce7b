// The entry points of persistent requests: making them.
#include "api/entry.hpp"
#include "tapa/tapa.h"

using namespace tapa;

extern "C" {

int TAPA_Alltoall_init(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                       int recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Info, MPI_Request* request) {
  return run_init(uniform_arguments("TAPA_Alltoall_init", false, sendbuf, sendcount, sendtype, recvbuf,
                                    recvcount, recvtype, comm),
                  request);
}

int TAPA_Alltoall_init_c(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                         MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Info,
                         MPI_Request* request) {
  return run_init(uniform_arguments("TAPA_Alltoall_init_c", true, sendbuf, sendcount, sendtype, recvbuf,
                                    recvcount, recvtype, comm),
                  request);
}

int TAPA_Alltoallv_init(const void* sendbuf, const int sendcounts[], const int sdispls[],
                        MPI_Datatype sendtype, void* recvbuf, const int recvcounts[], const int rdispls[],
                        MPI_Datatype recvtype, MPI_Comm comm, MPI_Info, MPI_Request* request) {
  return run_init(v_arguments("TAPA_Alltoallv_init", sendbuf, sendcounts, sdispls, sendtype, recvbuf,
                              recvcounts, rdispls, recvtype, comm),
                  request);
}

int TAPA_Alltoallv_init_c(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                          MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
                          const MPI_Aint rdispls[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Info,
                          MPI_Request* request) {
  return run_init(v_arguments("TAPA_Alltoallv_init_c", sendbuf, sendcounts, sdispls, sendtype, recvbuf,
                              recvcounts, rdispls, recvtype, comm),
                  request);
}

int TAPA_Alltoallw_init(const void* sendbuf, const int sendcounts[], const int sdispls[],
                        const MPI_Datatype sendtypes[], void* recvbuf, const int recvcounts[],
                        const int rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm, MPI_Info,
                        MPI_Request* request) {
  return run_init(w_arguments("TAPA_Alltoallw_init", sendbuf, sendcounts, sdispls, sendtypes, recvbuf,
                              recvcounts, rdispls, recvtypes, comm),
                  request);
}

int TAPA_Alltoallw_init_c(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                          const MPI_Datatype sendtypes[], void* recvbuf, const MPI_Count recvcounts[],
                          const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm, MPI_Info,
                          MPI_Request* request) {
  return run_init(w_arguments("TAPA_Alltoallw_init_c", sendbuf, sendcounts, sdispls, sendtypes, recvbuf,
                              recvcounts, rdispls, recvtypes, comm),
                  request);
}

}  // extern "C"
