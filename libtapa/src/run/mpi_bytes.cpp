#include "run/mpi_bytes.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "run/error.hpp"
#include "run/mpi_call.hpp"
#include "run/own_mpi.hpp"
#include "run/scratch.hpp"
#include "run/world.hpp"

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

/// Whether elements are longer than MPI_Pack can count. What is packed for MPI is, on a communicator of the
/// program's, where no message of ours may be.
bool has_long_elements(const std::vector<Block>& blocks) {
  return std::ranges::any_of(blocks, [](const Block& block) {
    return !block.dense() && block.runs.empty() && block.type != MPI_DATATYPE_NULL &&
           !countable(type_info(block.type).size);
  });
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

/// This rank's block for itself.
class OwnBlock {
 public:
  OwnBlock(const Block& from, const Block& to) : from_(from), to_(to) {
    if (!is_copied_straight(from, to)) packed_ = Scratch(from.bytes);
  }
  void copy(MPI_Comm comm) const {
    if (!packed_) return copy_block(from_, to_, comm);
    gather_block(from_, packed_.data(), comm);
    scatter_block(packed_.data(), to_, comm);
  }

 private:
  const Block& from_;
  const Block& to_;
  Scratch packed_;
};

}  // namespace

Mixed mixed_by_mpi(const Arguments& arguments, MPI_Comm comm) {
  if (arguments.in_place() || arguments.form == Form::uniform) return Mixed::all;
  const int ranks = size_of(comm);
  if (arguments.form == Form::w && ranks == 1) return Mixed::all;
  const int rank = rank_in(comm);
  if (!is_long_with_gaps(arguments.send, rank) && !is_long_with_gaps(arguments.recv, rank))
    return Mixed::none;
  return ranks == 1 ? Mixed::all : Mixed::own;
}

/// What MPI reads and writes that is not the program's memory.
struct CallForMpi::Held {
  std::optional<OwnBlock> own;
  std::optional<WithoutOwn> others;
  std::optional<ByteSide> send;
  std::optional<ByteSide> recv;
  std::vector<MPI_Datatype> types;
  MpiCallStorage numbers;
};

CallForMpi::CallForMpi(const Arguments& arguments, const Exchange& exchange, MPI_Comm comm) : comm_(comm) {
  bool in_bytes =
      countable_in_bytes(exchange) && !has_long_elements(exchange.send) && !has_long_elements(exchange.recv);
  try {
    if (in_bytes) prepare(arguments, exchange);
  } catch (const std::bad_alloc&) {
    held_.reset();  // MPI may need that
    in_bytes = false;
  }
  if (!in_bytes) take_as_made(arguments, static_cast<int>(exchange.recv.size()));
}

CallForMpi::CallForMpi(const Arguments& arguments, int ranks, MPI_Comm comm) : comm_(comm) {
  take_as_made(arguments, ranks);
}

CallForMpi::~CallForMpi() = default;

void CallForMpi::take_as_made(const Arguments& arguments, int ranks) {
  way_ = Way::made;
  if (!arguments.large) {
    arguments_ = arguments;
    return;
  }
  held_ = std::make_unique<Held>();
  arguments_ = for_mpi(arguments, ranks, held_->numbers);
}

void CallForMpi::prepare(const Arguments& arguments, const Exchange& exchange) {
  const int ranks = static_cast<int>(exchange.recv.size());
  // MPIs that look for equal buffers refuse them, although their blocks lie apart.
  const Mixed mixed = arguments.has_equal_buffers() ? Mixed::all : mixed_by_mpi(arguments, comm_);
  if (mixed == Mixed::none) return take_as_made(arguments, ranks);
  const int rank = rank_in(comm_);
  const auto own = static_cast<std::size_t>(rank);
  const bool alike = exchange.send[own].bytes == exchange.recv[own].bytes;  // else MPI finds what is wrong
  if (exchange.overlaps || !alike || (mixed == Mixed::all && ranks > 1))
    return prepare_bytes(arguments, exchange);
  held_ = std::make_unique<Held>();
  held_->own.emplace(exchange.send[own], exchange.recv[own]);
  way_ = Way::own;
  if (ranks == 1) return;
  const WithoutOwn& others = held_->others.emplace(arguments, rank, ranks);
  arguments_ = for_mpi(others.arguments(), ranks, held_->numbers);
}

// Which of MPI's functions is called depends on the form alone: it must be the same on all ranks.
void CallForMpi::prepare_bytes(const Arguments& arguments, const Exchange& exchange) {
  arguments_ = arguments;
  bytes_ = exchange.uniform_bytes;
  held_ = std::make_unique<Held>();
  const bool uniform = arguments.form == Form::uniform;
  held_->recv.emplace(exchange.recv, uniform, false);
  if (!exchange.in_place) held_->send.emplace(exchange.send, uniform, exchange.overlaps);
  if (arguments.form == Form::w) held_->types.assign(exchange.recv.size(), MPI_BYTE);
  way_ = Way::bytes;
}

int CallForMpi::call() const {
  try {
    if (way_ == Way::made) return call_mpi(arguments_, comm_, nullptr);
    if (way_ == Way::bytes) {
      gather();
      return call_bytes();
    }
    held_->own->copy(comm_);
    return held_->others ? call_mpi(arguments_, comm_, nullptr) : MPI_SUCCESS;
  } catch (const CallError& e) {  // of MPI_Pack: it has told the error handler
    return e.code();
  } catch (const std::bad_alloc&) {  // of a last element that is there in part
    return MPI_ERR_NO_MEM;
  }
}

void CallForMpi::gather() const {
  if (held_->send) held_->send->gather(comm_);
  // Blocks that are shorter than expected leave the rest of the receiver's memory as it is.
  if (!held_->send || arguments_.form != Form::uniform) held_->recv->gather(comm_);
}

int CallForMpi::call_bytes() const {
  const ByteSide& recv = *held_->recv;
  const ByteSide& send = held_->send ? *held_->send : recv;
  const void* const from = held_->send ? send.base() : MPI_IN_PLACE;
  const MPI_Datatype* const types = held_->types.data();
  switch (arguments_.form) {
    case Form::uniform:
      return call_mpi_bytes(from, recv.base(), bytes_, comm_);
    case Form::v:
      return TAPA_OWN_MPI(PMPI_Alltoallv)(from, send.counts(), send.displs(), MPI_BYTE, recv.base(),
                                          recv.counts(), recv.displs(), MPI_BYTE, comm_);
    default:
      return TAPA_OWN_MPI(PMPI_Alltoallw)(from, send.counts(), send.displs(), types, recv.base(),
                                          recv.counts(), recv.displs(), types, comm_);
  }
}

void CallForMpi::finish() const {
  if (way_ == Way::bytes) held_->recv->scatter(comm_);
}

}  // namespace tapa
