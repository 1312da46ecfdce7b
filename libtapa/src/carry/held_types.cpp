#include "carry/held_types.hpp"

#include "run/error.hpp"

namespace tapa {

void HeldTypes::hold(std::vector<Block>& blocks) {
  MPI_Datatype last = MPI_DATATYPE_NULL;
  MPI_Datatype copy = MPI_DATATYPE_NULL;
  for (Block& block : blocks) {
    if (block.type == MPI_DATATYPE_NULL) continue;
    if (block.type != last) {
      last = block.type;
      // Not a duplicate: that would call the user's functions that copy attributes.
      check_mpi(PMPI_Type_contiguous(1, last, &copy), "MPI_Type_contiguous");
      types_.push_back(copy);
      check_mpi(PMPI_Type_commit(&copy), "MPI_Type_commit");
    }
    block.type = copy;
  }
}

void HeldTypes::free() {
  for (MPI_Datatype& type : types_) PMPI_Type_free(&type);
  types_.clear();
}

}  // namespace tapa
