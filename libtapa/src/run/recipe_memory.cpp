#include "run/recipe_memory.hpp"

#include <sys/mman.h>
#include <sys/resource.h>

#include <cstddef>

#include "run/error.hpp"

namespace tapa {

#if defined(OPEN_MPI)

namespace {

constexpr MPI_Count kFew = 4096;              // a call may always want memory for so many
constexpr std::size_t kBytesOfEach = 2 * 32;  // two descriptions, of 32 bytes for each run

bool is_limited() {
  for (const auto which : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit most{};
    if (getrlimit(which, &most) == 0 && most.rlim_cur != RLIM_INFINITY) return true;
  }
  return false;
}

/// Basic elements of a type: as many as its description has runs, or more.
MPI_Count elements_of(MPI_Datatype type) {
  MPI_Count bytes = 0;
  MPI_Count elements = 0;
  MPI_Status status{};
  check_mpi(PMPI_Type_size_x(type, &bytes), "MPI_Type_size_x");
  if (bytes <= kFew) return bytes;
  check_mpi(PMPI_Status_set_elements_x(&status, MPI_BYTE, bytes), "MPI_Status_set_elements_x");
  check_mpi(PMPI_Get_elements_x(&status, type, &elements), "MPI_Get_elements_x");
  return elements == MPI_UNDEFINED ? bytes : elements;
}

}  // namespace

bool has_memory_for_recipe(MPI_Datatype type) {
  if (!is_limited()) return true;
  const MPI_Count elements = elements_of(type);
  if (elements <= kFew) return true;
  const std::size_t bytes = static_cast<std::size_t>(elements) * kBytesOfEach;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  munmap(memory, bytes);
  return true;
}

#else

bool has_memory_for_recipe(MPI_Datatype) {
  return true;
}

#endif

}  // namespace tapa
