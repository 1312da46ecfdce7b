// The entry points along the edges of a topology.
#include "api/entry.hpp"
#include "tapa/tapa.h"

using namespace tapa;

extern "C" {

int TAPA_Neighbor_alltoall(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                           int recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
  return run_neighbours(uniform_arguments("TAPA_Neighbor_alltoall", false, sendbuf, sendcount, sendtype,
                                          recvbuf, recvcount, recvtype, comm),
                        Mode::blocking);
}

int TAPA_Neighbor_alltoall_c(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                             MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
  return run_neighbours(uniform_arguments("TAPA_Neighbor_alltoall_c", true, sendbuf, sendcount, sendtype,
                                          recvbuf, recvcount, recvtype, comm),
                        Mode::blocking);
}

int TAPA_Neighbor_alltoallv(const void* sendbuf, const int sendcounts[], const int sdispls[],
                            MPI_Datatype sendtype, void* recvbuf, const int recvcounts[], const int rdispls[],
                            MPI_Datatype recvtype, MPI_Comm comm) {
  return run_neighbours(v_arguments("TAPA_Neighbor_alltoallv", sendbuf, sendcounts, sdispls, sendtype,
                                    recvbuf, recvcounts, rdispls, recvtype, comm),
                        Mode::blocking);
}

int TAPA_Neighbor_alltoallv_c(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                              MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
                              const MPI_Aint rdispls[], MPI_Datatype recvtype, MPI_Comm comm) {
  return run_neighbours(v_arguments("TAPA_Neighbor_alltoallv_c", sendbuf, sendcounts, sdispls, sendtype,
                                    recvbuf, recvcounts, rdispls, recvtype, comm),
                        Mode::blocking);
}

int TAPA_Neighbor_alltoallw(const void* sendbuf, const int sendcounts[], const MPI_Aint sdispls[],
                            const MPI_Datatype sendtypes[], void* recvbuf, const int recvcounts[],
                            const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm) {
  return run_neighbours(w_arguments("TAPA_Neighbor_alltoallw", sendbuf, sendcounts, sdispls, sendtypes,
                                    recvbuf, recvcounts, rdispls, recvtypes, comm),
                        Mode::blocking);
}

int TAPA_Neighbor_alltoallw_c(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                              const MPI_Datatype sendtypes[], void* recvbuf, const MPI_Count recvcounts[],
                              const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm) {
  return run_neighbours(w_arguments("TAPA_Neighbor_alltoallw_c", sendbuf, sendcounts, sdispls, sendtypes,
                                    recvbuf, recvcounts, rdispls, recvtypes, comm),
                        Mode::blocking);
}

int TAPA_Ineighbor_alltoall(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                            int recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Request* request) {
  return run_neighbours(uniform_arguments("TAPA_Ineighbor_alltoall", false, sendbuf, sendcount, sendtype,
                                          recvbuf, recvcount, recvtype, comm),
                        Mode::nonblocking, request);
}

int TAPA_Ineighbor_alltoall_c(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                              MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                              MPI_Request* request) {
  return run_neighbours(uniform_arguments("TAPA_Ineighbor_alltoall_c", true, sendbuf, sendcount, sendtype,
                                          recvbuf, recvcount, recvtype, comm),
                        Mode::nonblocking, request);
}

int TAPA_Ineighbor_alltoallv(const void* sendbuf, const int sendcounts[], const int sdispls[],
                             MPI_Datatype sendtype, void* recvbuf, const int recvcounts[],
                             const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm,
                             MPI_Request* request) {
  return run_neighbours(v_arguments("TAPA_Ineighbor_alltoallv", sendbuf, sendcounts, sdispls, sendtype,
                                    recvbuf, recvcounts, rdispls, recvtype, comm),
                        Mode::nonblocking, request);
}

int TAPA_Ineighbor_alltoallv_c(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                               MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
                               const MPI_Aint rdispls[], MPI_Datatype recvtype, MPI_Comm comm,
                               MPI_Request* request) {
  return run_neighbours(v_arguments("TAPA_Ineighbor_alltoallv_c", sendbuf, sendcounts, sdispls, sendtype,
                                    recvbuf, recvcounts, rdispls, recvtype, comm),
                        Mode::nonblocking, request);
}

int TAPA_Ineighbor_alltoallw(const void* sendbuf, const int sendcounts[], const MPI_Aint sdispls[],
                             const MPI_Datatype sendtypes[], void* recvbuf, const int recvcounts[],
                             const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
                             MPI_Request* request) {
  return run_neighbours(w_arguments("TAPA_Ineighbor_alltoallw", sendbuf, sendcounts, sdispls, sendtypes,
                                    recvbuf, recvcounts, rdispls, recvtypes, comm),
                        Mode::nonblocking, request);
}

int TAPA_Ineighbor_alltoallw_c(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                               const MPI_Datatype sendtypes[], void* recvbuf, const MPI_Count recvcounts[],
                               const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
                               MPI_Request* request) {
  return run_neighbours(w_arguments("TAPA_Ineighbor_alltoallw_c", sendbuf, sendcounts, sdispls, sendtypes,
                                    recvbuf, recvcounts, rdispls, recvtypes, comm),
                        Mode::nonblocking, request);
}

}  // extern "C"
