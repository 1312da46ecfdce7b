#include "run/mpi_bytes.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <list>
#include <optional>
#include <vector>

#include "run/error.hpp"
#include "run/mpi_call.hpp"
#include "run/own_mpi.hpp"
#include "run/scratch.hpp"

namespace tapa {

namespace {

/// Where the blocks of a side that are all dense begin and end, in all.
struct Span {
  bool dense = true;
  std::byte* first = nullptr;
  std::byte* last = nullptr;
  std::size_t bytes = 0;  // of the blocks
};

Span span_of(const std::vector<Block>& blocks) {
  Span span;
  for (const Block& block : blocks) {
    span.bytes += block.bytes;
    if (block.bytes == 0) continue;
    span.dense = span.dense && block.dense();
    std::byte* const end = block.data + (block.dense() ? block.bytes : 0);
    if (span.first == nullptr || std::less<>{}(block.data, span.first)) span.first = block.data;
    if (span.last == nullptr || std::less<>{}(span.last, end)) span.last = end;
  }
  return span;
}

/// What MPI must be able to count: displacements of blocks where they lie, or the whole of a packed copy.
std::size_t reach(const Span& span) {
  return span.dense ? static_cast<std::size_t>(span.last - span.first) : span.bytes;
}

/// One side as MPI takes it, in bytes: where it lies when all blocks are dense, else a packed copy. `in_row`:
/// equal blocks must lie one after the other; `copy`: a copy it must be.
class ByteSide {
 public:
  ByteSide(const std::vector<Block>& blocks, bool in_row, bool copy) : blocks_(blocks) {
    const Span span = span_of(blocks);
    const bool direct = span.dense && !copy && (!in_row || tapa::in_row(blocks, blocks[0].bytes) != nullptr);
    if (!direct) packed_ = Scratch(span.bytes);
    base_ = direct ? span.first : packed_.data();
    int at = 0;
    for (const Block& block : blocks) {
      counts_.push_back(static_cast<int>(block.bytes));
      displs_.push_back(!direct || block.bytes == 0 ? at : static_cast<int>(block.data - base_));
      if (!direct) at += counts_.back();
    }
  }
  void gather(MPI_Comm comm) {
    for (std::size_t i = 0; packed_ && i < blocks_.size(); ++i) {
      if (blocks_[i].bytes > 0) gather_block(blocks_[i], base_ + displs_[i], comm);
    }
  }
  void scatter(MPI_Comm comm) const {
    for (std::size_t i = 0; packed_ && i < blocks_.size(); ++i) {
      if (blocks_[i].bytes > 0) scatter_block(base_ + displs_[i], blocks_[i], comm);
    }
  }

  [[nodiscard]] std::byte* base() const { return base_; }
  [[nodiscard]] const int* counts() const { return counts_.data(); }
  [[nodiscard]] const int* displs() const { return displs_.data(); }

 private:
  const std::vector<Block>& blocks_;
  Scratch packed_;
  std::byte* base_ = nullptr;
  std::vector<int> counts_;
  std::vector<int> displs_;
};

/// Whether MPI's int counts and displacements suffice.
bool countable_in_bytes(const Exchange& exchange) {
  return countable(reach(span_of(exchange.recv))) &&
         (exchange.in_place || countable(reach(span_of(exchange.send))));
}

int call_as_made(const Arguments& arguments, int ranks, MPI_Comm comm) {
  MpiCallStorage storage;
  return call_mpi(arguments, ranks, comm, nullptr, storage);
}

// Precondition: countable_in_bytes(). Which of MPI's functions is called depends on the form alone: it must
// be the same on all ranks.
int all_to_all_in_bytes(Form form, const Exchange& exchange, MPI_Comm comm) {
  const bool uniform = form == Form::uniform;
  ByteSide recv(exchange.recv, uniform, false);
  std::optional<ByteSide> other;
  if (!exchange.in_place) other.emplace(exchange.send, uniform, exchange.overlaps);
  ByteSide& send = other ? *other : recv;
  send.gather(comm);
  // Blocks that are shorter than expected leave the rest of the receiver's memory as it is.
  if (other && !uniform) recv.gather(comm);
  const void* const from = exchange.in_place ? MPI_IN_PLACE : send.base();
  int code = MPI_SUCCESS;
  if (uniform) {
    code = call_mpi_bytes(from, recv.base(), exchange.uniform_bytes, comm);
  } else if (form == Form::v) {
    code = TAPA_OWN_MPI(PMPI_Alltoallv)(from, send.counts(), send.displs(), MPI_BYTE, recv.base(),
                                        recv.counts(), recv.displs(), MPI_BYTE, comm);
  } else {
    const std::vector<MPI_Datatype> bytes(exchange.recv.size(), MPI_BYTE);
    code = TAPA_OWN_MPI(PMPI_Alltoallw)(from, send.counts(), send.displs(), bytes.data(), recv.base(),
                                        recv.counts(), recv.displs(), bytes.data(), comm);
  }
  if (code == MPI_SUCCESS) recv.scatter(comm);
  return code;
}

bool is_long_with_gaps(const Side& side, int peer) {
  constexpr std::size_t kLong = std::size_t{64} * 1024;
  const MPI_Datatype type = side.type_of(peer);
  if (type == MPI_DATATYPE_NULL) return false;
  const TypeInfo info = type_info(type);
  const MPI_Count count = side.count_of(peer);
  return static_cast<std::size_t>(count) * info.size >= kLong && !info.dense(count);
}

/// A call as it was made, but for this rank's own block.
class WithoutOwn {
 public:
  WithoutOwn(const Arguments& made, int rank, int ranks) : arguments_(made) {
    for (Side* side : {&arguments_.send, &arguments_.recv}) {
      if (side->counts != nullptr) side->counts = without(side->counts, rank, ranks, counts_);
      if (side->large_counts != nullptr)
        side->large_counts = without(side->large_counts, rank, ranks, large_counts_);
    }
  }
  [[nodiscard]] const Arguments& arguments() const { return arguments_; }

 private:
  template <class Count>
  static const Count* without(const Count* counts, int rank, int ranks, std::list<std::vector<Count>>& kept) {
    std::vector<Count>& copy = kept.emplace_back(counts, counts + ranks);
    copy[static_cast<std::size_t>(rank)] = 0;
    return copy.data();
  }

  Arguments arguments_;
  std::list<std::vector<int>> counts_;
  std::list<std::vector<MPI_Count>> large_counts_;
};

/// MPI moves the others' blocks, as the call was made, and this rank's own is copied here.
int call_without_own(const Arguments& arguments, const Exchange& exchange, int rank, MPI_Comm comm) {
  const int ranks = static_cast<int>(exchange.recv.size());
  const WithoutOwn others(arguments, rank, ranks);
  if (const int code = call_as_made(others.arguments(), ranks, comm); code != MPI_SUCCESS) return code;
  const auto own = static_cast<std::size_t>(rank);
  copy_block(exchange.send[own], exchange.recv[own], comm);
  return MPI_SUCCESS;
}

int rank_in(MPI_Comm comm) {
  int rank = 0;
  check_mpi(PMPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  return rank;
}

}  // namespace

Mixed mixed_by_mpi(const Arguments& arguments, MPI_Comm comm) {
  if (arguments.in_place() || arguments.form == Form::uniform) return Mixed::all;
  int ranks = 0;
  check_mpi(PMPI_Comm_size(comm, &ranks), "MPI_Comm_size");
  if (arguments.form == Form::w && ranks == 1) return Mixed::all;
  const int rank = rank_in(comm);
  if (!is_long_with_gaps(arguments.send, rank) && !is_long_with_gaps(arguments.recv, rank))
    return Mixed::none;
  return ranks == 1 ? Mixed::all : Mixed::own;
}

int call_mpi(const Arguments& arguments, const Exchange& exchange, MPI_Comm comm, bool as_made) {
  const int ranks = static_cast<int>(exchange.recv.size());
  if (as_made || !countable_in_bytes(exchange)) return call_as_made(arguments, ranks, comm);
  // MPIs that look for equal buffers refuse them, although their blocks lie apart.
  const Mixed mixed = arguments.has_equal_buffers() ? Mixed::all : mixed_by_mpi(arguments, comm);
  if (mixed == Mixed::none) return call_as_made(arguments, ranks, comm);
  const int rank = rank_in(comm);
  const auto own = static_cast<std::size_t>(rank);
  const bool alike = exchange.send[own].bytes == exchange.recv[own].bytes;  // else MPI finds what is wrong
  if (exchange.overlaps || !alike) return all_to_all_in_bytes(arguments.form, exchange, comm);
  if (ranks == 1) {
    copy_block(exchange.send[0], exchange.recv[0], comm);
    return MPI_SUCCESS;
  }
  return mixed == Mixed::own ? call_without_own(arguments, exchange, rank, comm)
                             : all_to_all_in_bytes(arguments.form, exchange, comm);
}

int call_mpi(const Arguments& arguments, int ranks, MPI_Comm comm, bool as_made, Exchange& scratch) {
  if (as_made) return call_as_made(arguments, ranks, comm);
  normalise(arguments, ranks, scratch);
  return call_mpi(arguments, scratch, comm, false);
}

}  // namespace tapa
