// The entry points that give memory which other ranks can map.

#include "run/error.hpp"
#include "tapa/tapa.h"
#include "transport/arena.hpp"

using namespace tapa;

extern "C" {

int TAPA_Alloc(MPI_Aint size, void** buffer) {
  return guarded(MPI_COMM_NULL, "TAPA_Alloc", [&] {
    if (size < 0) refuse(MPI_ERR_ARG, "size is ", size, ", expected 0 or more bytes");
    if (buffer == nullptr) refuse(MPI_ERR_ARG, "buffer is null, expected the address of a pointer");
    *buffer = Arenas::of_process().allocate(static_cast<std::size_t>(size));
    if (*buffer == nullptr) refuse(MPI_ERR_NO_MEM, "no memory for size ", size, " bytes");
  });
}

int TAPA_Free(void* buffer) {
  return guarded(MPI_COMM_NULL, "TAPA_Free", [&] {
    if (!Arenas::of_process().free(buffer))
      refuse(MPI_ERR_ARG, "buffer is not memory that TAPA_Alloc gave and that was not freed yet");
  });
}

}  // extern "C"
