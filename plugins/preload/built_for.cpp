#include <mpi.h>

#include <cstdint>

#include "series.hpp"

namespace tapa::preload {

// What mpi_as_passed.hpp and handles.cpp say of MPIs, of this one.
static_assert(MPI_SUCCESS == 0 && MPI_MAX_LIBRARY_VERSION_STRING <= 8192);
static_assert(sizeof(MPI_Aint) == sizeof(std::intptr_t) && sizeof(MPI_Count) == sizeof(std::int64_t));
static_assert(sizeof(MPI_Comm) <= sizeof(void*) && sizeof(MPI_Request) <= sizeof(void*));

extern const MpiSeries built_for;

#if MPI_ABI_VERSION > 0
const MpiSeries built_for{Family::standard, MPI_ABI_VERSION, MPI_ABI_SUBVERSION};
#elif defined(OPEN_MPI)
const MpiSeries built_for{Family::open_mpi, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION};
#else
static_assert(MPI_COMM_WORLD == 0x44000000 && MPI_COMM_SELF == 0x44000001);
static_assert(MPI_LONG_LONG_INT == 0x4c000809 && MPI_MIN == 0x58000002);
const MpiSeries built_for{Family::mpich, MPICH_NUMVERSION / 10000000, MPICH_NUMVERSION / 100000 % 100};
#endif

}  // namespace tapa::preload
