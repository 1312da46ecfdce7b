/// @file
/// Functions of the MPI library itself, whoever else defines functions of these names.
#pragma once

namespace tapa {

/// The address of `name` in the MPI library, or null when MPI is not a shared library. A drop-in or a tool
/// that stands before MPI would take a call by name for the program's.
[[nodiscard]] void* find_in_mpi(const char* name);

/// The function of this name, or `linked` where it is not found.
template <class Function>
[[nodiscard]] Function* own_mpi(const char* name, Function* linked) {
  void* const found = find_in_mpi(name);
  return found != nullptr ? reinterpret_cast<Function*>(found) : linked;
}

}  // namespace tapa

/// MPI's own PMPI_X, looked up once.
#define TAPA_OWN_MPI(name)                                      \
  ([]() noexcept {                                              \
    static const auto function = tapa::own_mpi(#name, &(name)); \
    return function;                                            \
  }())
