/* Persistent all-to-alls under one name each, where MPI has them: as in MPI 4, or as an extension. Behind
 * mpi.h. */
#ifndef TESTS_PROGRAMS_PERSISTENT_H
#define TESTS_PROGRAMS_PERSISTENT_H

#ifdef HAVE_MPIX_PERSISTENT
#include <mpi-ext.h>
#define Alltoall_init MPIX_Alltoall_init
#define Alltoallv_init MPIX_Alltoallv_init
#define Alltoallw_init MPIX_Alltoallw_init
#define Neighbor_alltoall_init MPIX_Neighbor_alltoall_init
#define Neighbor_alltoallv_init MPIX_Neighbor_alltoallv_init
#define Neighbor_alltoallw_init MPIX_Neighbor_alltoallw_init
#elif defined(HAVE_MPI_PERSISTENT)
#define Alltoall_init MPI_Alltoall_init
#define Alltoallv_init MPI_Alltoallv_init
#define Alltoallw_init MPI_Alltoallw_init
#define Neighbor_alltoall_init MPI_Neighbor_alltoall_init
#define Neighbor_alltoallv_init MPI_Neighbor_alltoallv_init
#define Neighbor_alltoallw_init MPI_Neighbor_alltoallw_init
#define Neighbor_alltoall_init_c MPI_Neighbor_alltoall_init_c
#define Neighbor_alltoallv_init_c MPI_Neighbor_alltoallv_init_c
#define Neighbor_alltoallw_init_c MPI_Neighbor_alltoallw_init_c
#endif

#endif
