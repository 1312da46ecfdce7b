#include "mpi/flat.hpp"

#include "common/call_arrays.hpp"
#include "mpi/node_levels.hpp"

namespace dit {
namespace {

// MPI 4 has calls for blocks of any size.
#if MPI_VERSION >= 4
using Arrays = CallArrays<MPI_Count, MPI_Aint>;
constexpr auto blocking_call = MPI_Alltoallv_c;
constexpr auto nonblocking_call = MPI_Ialltoallv_c;
#else
using Arrays = CallArrays<int, int>;
constexpr auto blocking_call = MPI_Alltoallv;
constexpr auto nonblocking_call = MPI_Ialltoallv;
#endif

class FlatTransfer final : public Transfer {
 public:
  FlatTransfer(MPI_Comm comm, const dit_exchange_call& call, const ContextPlace& place)
      : comm_(comm), arrays_(call, place) {}

  void start(MPI_Request& request) override {
    check_mpi(arrays_.pass_to(nonblocking_call, comm_, &request), "MPI_Ialltoallv");
  }
  void run() override { check_mpi(arrays_.pass_to(blocking_call, comm_), "MPI_Alltoallv"); }
  void finish() override { arrays_.finish(); }

 private:
  MPI_Comm comm_;
  Arrays arrays_;
};

class FlatAllToAll final : public AllToAll {
 public:
  explicit FlatAllToAll(MPI_Comm comm) : comm_(comm) {}
  Levels levels() override { return node_levels(comm_); }
  std::unique_ptr<Transfer> prepare(const dit_exchange_call& call, const ContextPlace& place) override {
    return std::make_unique<FlatTransfer>(comm_, call, place);
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
