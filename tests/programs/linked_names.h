/* In programs that are linked with libtapa (USE_TAPA) calls by MPI's names are libtapa's. Behind mpi.h. */
#ifdef USE_TAPA
#include <tapa/tapa.h>
#define MPI_Alltoall TAPA_Alltoall
#define MPI_Alltoallv TAPA_Alltoallv
#define MPI_Alltoallw TAPA_Alltoallw
#define MPI_Ialltoall TAPA_Ialltoall
#endif
