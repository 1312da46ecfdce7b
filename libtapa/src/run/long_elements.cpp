#include "run/long_elements.hpp"

#include <array>
#include <atomic>

#include "run/error.hpp"
#include "run/world.hpp"

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

// No other message of the library goes from a rank to itself. Each has a tag of its own, as threads may pack
// at the same time; and none is waited for inside MPI, where Open MPI may have one wait for another, which
// would be for ever where the outer one has called the progress engine.
void send_to_itself(const void* from, MPI_Datatype from_type, void* to, MPI_Datatype to_type, MPI_Comm comm) {
  constexpr unsigned kTags = 32768;  // that every MPI has
  static std::atomic<unsigned> last{0};
  const auto tag = static_cast<int>(last.fetch_add(1, std::memory_order_relaxed) % kTags);
  const int rank = rank_in(comm);
  std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  check_mpi(PMPI_Irecv(to, 1, to_type, rank, tag, comm, requests.data()), "MPI_Irecv");
  const int code = PMPI_Isend(from, 1, from_type, rank, tag, comm, &requests[1]);
  if (code != MPI_SUCCESS) {
    PMPI_Cancel(requests.data());
    PMPI_Request_free(requests.data());
    check_mpi(code, "MPI_Isend");
  }
  for (int done = 0; done == 0;)
    check_mpi(PMPI_Testall(2, requests.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
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
