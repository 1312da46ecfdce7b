/// @file
/// The arguments of all forms of the all-to-all, and the one description that they are turned into.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "run/datatype.hpp"
#include "run/edges.hpp"
#include "run/selection.hpp"

namespace tapa {

enum class Form : std::uint8_t { uniform, v, w };
enum class Mode : std::uint8_t { blocking, nonblocking, persistent };

/// One side (send or receive) as the caller gave it. Uniform: `count` and `type`. v and w: one pair of
/// arrays, int or large; w: `types` too, and displacements in bytes.
struct Side {
  const void* buffer = nullptr;
  MPI_Count count = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  const int* counts = nullptr;
  const int* displs = nullptr;
  const MPI_Count* large_counts = nullptr;
  const MPI_Aint* large_displs = nullptr;
  const MPI_Datatype* types = nullptr;

  [[nodiscard]] MPI_Count count_of(int peer) const {
    return large_counts != nullptr ? large_counts[peer] : counts != nullptr ? MPI_Count{counts[peer]} : count;
  }
  [[nodiscard]] MPI_Aint displ_of(int peer) const {
    return large_displs != nullptr ? large_displs[peer] : MPI_Aint{displs[peer]};
  }
  [[nodiscard]] MPI_Datatype type_of(int peer) const { return types != nullptr ? types[peer] : type; }
  /// Of `type`, looked up once. Throws CallError as type_info() does.
  [[nodiscard]] const TypeInfo& info() const {
    if (!known) known = type_info(type);
    return *known;
  }
  mutable std::optional<TypeInfo> known = std::nullopt;  ///< for info()
};

/// A call as it was made.
struct Arguments {
  const char* function = "";  ///< name of the entry point, for messages
  Form form = Form::uniform;
  bool large = false;  ///< the _c form
  Side send;
  Side recv;
  MPI_Comm comm = MPI_COMM_NULL;
  bool neighbours = false;       ///< of a neighbourhood: its blocks go along edges, not to all ranks
  const Edges* edges = nullptr;  ///< then; null: not known

  /// Number of blocks on one of its sides, among `ranks` ranks.
  [[nodiscard]] int blocks(const Side& side, int ranks) const {
    if (!neighbours) return ranks;
    return edges != nullptr ? static_cast<int>(edges_of(side).ranks.size()) : 0;
  }
  /// Whether a block is for MPI_PROC_NULL or from it: its memory may not be looked at.
  [[nodiscard]] bool leads_nowhere(const Side& side, int block) const {
    return neighbours && edges_of(side).ranks[static_cast<std::size_t>(block)] < 0;
  }
  /// Precondition: they are known.
  [[nodiscard]] const Edges::Side& edges_of(const Side& side) const {
    return &side == &send ? edges->send : edges->recv;
  }
  [[nodiscard]] bool in_place() const { return send.buffer == MPI_IN_PLACE; }
  /// The side that says what is sent.
  [[nodiscard]] const Side& sent() const { return in_place() ? recv : send; }
  /// MPI forbids that, and lets it pass. Null: blocks have addresses.
  [[nodiscard]] bool has_equal_buffers() const {
    return send.buffer == recv.buffer && recv.buffer != nullptr && !in_place();
  }
};

/// What this rank sends to, or receives from, one peer. Four layouts: dense bytes (type is MPI_DATATYPE_NULL
/// and there are no runs), elements of a datatype, some rows of a dense array of rows, or several blocks.
struct Block {
  std::byte* data = nullptr;  ///< dense: the first byte; datatype: the address MPI wants; rows: row 0
  std::size_t bytes = 0;      ///< bytes of data; received: may be fewer than those of `count` elements
  MPI_Count count = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  std::span<const RowRun> runs;  ///< the rows that belong to the block
  std::size_t row_bytes = 0;
  std::span<const Block> parts;  ///< that travel as one, each dense or of a datatype

  [[nodiscard]] bool dense() const { return type == MPI_DATATYPE_NULL && runs.empty() && parts.empty(); }
};

/// A call, normalised: a block for each peer on both sides.
struct Exchange {
  std::vector<Block> send;  ///< one for each rank; in place: as `recv`
  std::vector<Block> recv;
  std::vector<Block> send_parts;  ///< of blocks that have parts
  std::vector<Block> recv_parts;
  bool in_place = false;  ///< the data to send lies in the receive blocks
  bool overlaps = false;  ///< so it does, or may: all must be sent before anything is received
  bool uniform = false;   ///< all blocks of all ranks have `uniform_bytes` bytes
  std::size_t uniform_bytes = 0;
};

[[noreturn]] void refuse_count(const TypeInfo& info, MPI_Count count);
/// Bytes of a block of `count` elements. Throws CallError (MPI_ERR_COUNT) where they exceed the address
/// space.
[[nodiscard]] inline std::size_t block_bytes(const TypeInfo& info, MPI_Count count) {
  MPI_Aint bytes = 0;
  if (__builtin_mul_overflow(count, info.size, &bytes) || bytes < 0) refuse_count(info, count);
  return static_cast<std::size_t>(bytes);
}

/// Bytes of each block that a call sends along edges, where it sends some and all have as many.
[[nodiscard]] std::optional<std::size_t> edge_bytes(const Arguments& arguments);

/// Offset of a peer's block from the buffer.
[[nodiscard]] inline MPI_Aint block_offset(Form form, const Side& side, const TypeInfo& info, int peer) {
  if (form == Form::uniform) return static_cast<MPI_Aint>(side.count) * info.extent * peer;
  return side.displ_of(peer) * (form == Form::v ? info.extent : 1);
}

/// Fills `exchange` from checked arguments; its vectors keep their memory between calls.
void normalise(const Arguments& arguments, int ranks, Exchange& exchange);

/// The first byte of blocks of `bytes` bytes that are all dense and lie one after the other; null when they
/// do not.
[[nodiscard]] std::byte* in_row(const std::vector<Block>& blocks, std::size_t bytes);

/// Copies a block into `to` or out of `from` (block.bytes bytes).
void gather_block(const Block& block, std::byte* to, MPI_Comm comm);
void scatter_block(const std::byte* from, const Block& block, MPI_Comm comm);

/// Copies a block to another of as many bytes that shares no memory with it, through a packed copy only where
/// a layout is not known.
void copy_block(const Block& from, const Block& to, MPI_Comm comm);
/// Whether that needs no packed copy between.
[[nodiscard]] bool is_copied_straight(const Block& from, const Block& to);

/// Arguments of the C entry points, by form. Displ and Count are int, or MPI_Aint and MPI_Count.
template <class Count>
[[nodiscard]] Arguments uniform_arguments(const char* function, const void* sendbuf, Count sendcount,
                                          MPI_Datatype sendtype, void* recvbuf, Count recvcount,
                                          MPI_Datatype recvtype, MPI_Comm comm) {
  Arguments a{function, Form::uniform, sizeof(Count) > sizeof(int), {}, {}, comm};
  a.send.buffer = sendbuf;
  a.send.count = sendcount;
  a.send.type = sendtype;
  a.recv.buffer = recvbuf;
  a.recv.count = recvcount;
  a.recv.type = recvtype;
  return a;
}

template <class Count, class Displ>
[[nodiscard]] Side side_of(const void* buffer, const Count* counts, const Displ* displs) {
  Side s;
  s.buffer = buffer;
  if constexpr (std::is_same_v<Count, int>)
    s.counts = counts;
  else
    s.large_counts = counts;
  if constexpr (std::is_same_v<Displ, int>)
    s.displs = displs;
  else
    s.large_displs = displs;
  return s;
}

template <class Count, class Displ>
[[nodiscard]] Arguments v_arguments(const char* function, const void* sendbuf, const Count* sendcounts,
                                    const Displ* sdispls, MPI_Datatype sendtype, void* recvbuf,
                                    const Count* recvcounts, const Displ* rdispls, MPI_Datatype recvtype,
                                    MPI_Comm comm) {
  Arguments a{function,
              Form::v,
              sizeof(Count) > sizeof(int),
              side_of(sendbuf, sendcounts, sdispls),
              side_of(recvbuf, recvcounts, rdispls),
              comm};
  a.send.type = sendtype;
  a.recv.type = recvtype;
  return a;
}

template <class Count, class Displ>
[[nodiscard]] Arguments w_arguments(const char* function, const void* sendbuf, const Count* sendcounts,
                                    const Displ* sdispls, const MPI_Datatype* sendtypes, void* recvbuf,
                                    const Count* recvcounts, const Displ* rdispls,
                                    const MPI_Datatype* recvtypes, MPI_Comm comm) {
  Arguments a{function,
              Form::w,
              sizeof(Count) > sizeof(int),
              side_of(sendbuf, sendcounts, sdispls),
              side_of(recvbuf, recvcounts, rdispls),
              comm};
  a.send.types = sendtypes;
  a.recv.types = recvtypes;
  return a;
}

}  // namespace tapa
