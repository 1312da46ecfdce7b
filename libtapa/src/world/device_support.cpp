#include "world/device_support.hpp"

#include <mpi.h>

#include <string_view>

#include "files/environment.hpp"
#include "run/own_mpi.hpp"
#include "tapa/device.h"

namespace tapa {

namespace {

bool is_on(const char* variable) {
  const char* const text = files::variable(variable);
  return text != nullptr && std::string_view(text) == "1";
}

}  // namespace

bool has_device_engine() {
  return TAPA_Device_query(TAPA_DEVICE_COMM_NULL, nullptr) != TAPA_DEVICE_ERR_UNSUPPORTED;
}

bool mpi_takes_device_memory() {
  if (void* const query = find_in_mpi("MPIX_Query_cuda_support"))
    return reinterpret_cast<int (*)()>(query)() != 0;
  if (void* const query = find_in_mpi("MPIX_GPU_query_support")) {  // MPICH
    constexpr int cuda = 0;
    int supported = 0;
    return reinterpret_cast<int (*)(int, int*)>(query)(cuda, &supported) == MPI_SUCCESS && supported != 0;
  }
  return is_on("MPICH_GPU_SUPPORT_ENABLED") || is_on("MV2_USE_CUDA");  // Cray MPICH, MVAPICH2
}

}  // namespace tapa
