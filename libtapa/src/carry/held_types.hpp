/// @file
/// Datatypes of a call that lasts longer than the program may keep them.
#pragma once

#include <mpi.h>

#include <vector>

#include "run/arguments.hpp"

namespace tapa {

class HeldTypes {
 public:
  HeldTypes() = default;
  ~HeldTypes() { free(); }
  HeldTypes(const HeldTypes&) = delete;
  HeldTypes& operator=(const HeldTypes&) = delete;

  /// Puts types of our own in the place of those of blocks. Throws CallError.
  void hold(std::vector<Block>& blocks);
  void free();

 private:
  std::vector<MPI_Datatype> types_;
};

}  // namespace tapa
