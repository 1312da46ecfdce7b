#include "mpi/flat.hpp"

#include "common/block_arrays.hpp"
#include "exchange/select_rows.hpp"
#include "mpi/node_levels.hpp"

namespace dit {
namespace {

// MPI 4 has calls for blocks of any size.
#if MPI_VERSION >= 4
using Arrays = BlockArrays<MPI_Count, MPI_Aint>;
constexpr auto blocking_call = MPI_Alltoallv_c;
constexpr auto nonblocking_call = MPI_Ialltoallv_c;
#else
using Arrays = BlockArrays<int, int>;
constexpr auto blocking_call = MPI_Alltoallv;
constexpr auto nonblocking_call = MPI_Ialltoallv;
#endif

class FlatTransfer final : public Transfer {
 public:
  /// `packed`: the rows of a call that selects some, else nothing.
  FlatTransfer(MPI_Comm comm, const dit_exchange_call& call, std::size_t size,
               std::unique_ptr<PackedCall> packed)
      : comm_(comm),
        packed_(std::move(packed)),
        send_(packed_ ? packed_->send_blocks() : std::span(call.send_blocks, size), "send_blocks"),
        recv_(packed_ ? packed_->recv_blocks() : std::span(call.recv_blocks, size), "recv_blocks"),
        send_data_(
            send_.base(packed_ ? packed_->packed_send().data() : static_cast<const std::byte*>(call.send))),
        recv_data_(recv_.base(packed_ ? packed_->packed_recv().data() : static_cast<std::byte*>(call.recv))) {
  }

  void start(MPI_Request& request) override {
    check_mpi(
        nonblocking_call(send_data_, send_.counts.data(), send_.displacements.data(), MPI_BYTE, recv_data_,
                         recv_.counts.data(), recv_.displacements.data(), MPI_BYTE, comm_, &request),
        "MPI_Ialltoallv");
  }
  void run() override {
    check_mpi(blocking_call(send_data_, send_.counts.data(), send_.displacements.data(), MPI_BYTE, recv_data_,
                            recv_.counts.data(), recv_.displacements.data(), MPI_BYTE, comm_),
              "MPI_Alltoallv");
  }
  void finish() override {
    if (packed_) packed_->unpack();
  }

 private:
  MPI_Comm comm_;
  std::unique_ptr<PackedCall> packed_;
  Arrays send_, recv_;
  const std::byte* send_data_;
  std::byte* recv_data_;
};

class FlatAllToAll final : public AllToAll {
 public:
  explicit FlatAllToAll(MPI_Comm comm) : comm_(comm) {}
  Levels levels() override { return node_levels(comm_); }
  std::unique_ptr<Transfer> prepare(const dit_exchange_call& call, const ContextPlace& place) override {
    auto packed = call.selection == nullptr ? nullptr : std::make_unique<PackedCall>(call, place);
    return std::make_unique<FlatTransfer>(comm_, call, place.size(), std::move(packed));
  }
  std::string text() const override { return "flat: MPI_Ialltoallv, MPI_Alltoallv for blocking exchanges"; }

 private:
  MPI_Comm comm_;
};

}  // namespace

std::unique_ptr<AllToAll> make_flat(MPI_Comm comm) {
  return std::make_unique<FlatAllToAll>(comm);
}

}  // namespace dit
