#include "run/long_elements.hpp"

#include <array>
#include <mutex>

#include "run/error.hpp"

namespace tapa {

namespace {

/// Dense bytes as one element.
class DenseType {
 public:
  explicit DenseType(std::size_t bytes) {
    constexpr std::size_t kPart = std::size_t{1} << 20;
    MPI_Datatype part = MPI_DATATYPE_NULL;
    check_mpi(PMPI_Type_contiguous(static_cast<int>(kPart), MPI_BYTE, &part), "MPI_Type_contiguous");
    const std::array<int, 2> lengths{static_cast<int>(bytes / kPart), static_cast<int>(bytes % kPart)};
    const std::array<MPI_Aint, 2> displs{0, static_cast<MPI_Aint>(bytes / kPart * kPart)};
    const std::array<MPI_Datatype, 2> types{part, MPI_BYTE};
    int code = PMPI_Type_create_struct(2, lengths.data(), displs.data(), types.data(), &type_);
    PMPI_Type_free(&part);
    check_mpi(code, "MPI_Type_create_struct");
    code = PMPI_Type_commit(&type_);
    if (code != MPI_SUCCESS) PMPI_Type_free(&type_);
    check_mpi(code, "MPI_Type_commit");
  }
  ~DenseType() { PMPI_Type_free(&type_); }
  DenseType(const DenseType&) = delete;
  DenseType& operator=(const DenseType&) = delete;
  [[nodiscard]] MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

// No other message of the library goes from a rank to itself; those of two threads would be taken for each
// other.
void send_to_itself(const void* from, MPI_Datatype from_type, void* to, MPI_Datatype to_type, MPI_Comm comm) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  int rank = 0;
  check_mpi(PMPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check_mpi(PMPI_Sendrecv(from, 1, from_type, rank, 0, to, 1, to_type, rank, 0, comm, MPI_STATUS_IGNORE),
            "MPI_Sendrecv");
}

}  // namespace

void pack_long(const void* from, MPI_Datatype type, std::size_t bytes, std::byte* to, MPI_Comm comm) {
  const DenseType dense(bytes);
  send_to_itself(from, type, to, dense.get(), comm);
}

void unpack_long(const std::byte* from, std::size_t bytes, void* to, MPI_Datatype type, MPI_Comm comm) {
  const DenseType dense(bytes);
  send_to_itself(from, dense.get(), to, type, comm);
}

}  // namespace tapa
