// What programs that are built without CUDA say about it.
#include <stdexcept>

#include "gpu.hpp"

namespace tapa::bench {

namespace {

constexpr const char* kReason =
    "this program was built without CUDA: configure with -DTAPA_CUDA=ON where nvcc is";

[[noreturn]] void unavailable() {
  throw std::logic_error(kReason);
}

}  // namespace

std::string take_gpu(MPI_Comm) {
  return kReason;
}
bool mpi_takes_gpu_memory() {
  return false;
}
std::uint8_t* allocate_on_gpu(std::size_t) {
  unavailable();
}
void free_on_gpu(void*) {}
void copy_any(void*, const void*, std::size_t) {
  unavailable();
}
std::unique_ptr<NcclRival> NcclRival::make(MPI_Comm, const std::string&, bool, std::size_t) {
  return nullptr;
}

}  // namespace tapa::bench
