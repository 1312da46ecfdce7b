#include "run/memory_run.hpp"

#include <span>
#include <vector>

#include "run/private_comm.hpp"

namespace tapa {

namespace {

/// Whether a side may have dense blocks only, one for each rank at most.
bool may_be_dense(const Arguments& a, const Side& side) {
  return a.form != Form::w && (a.neighbours ? !a.edges_of(side).repeats : a.form == Form::v);
}

/// A dense block of `count` elements, so many bytes behind `first`; none where there are no bytes.
template <class Offset>
void put_block(ShmBlock& block, std::byte* first, const TypeInfo& info, MPI_Count count,
               const Offset& offset) {
  block = {};
  if (count == 0) return;
  const std::size_t bytes = block_bytes(info, count);
  if (bytes != 0) block = {address_at(first, offset()), bytes, 0};
}

/// Of v, with counts and displacements of these types: its own loop, as sparse calls have little else to do.
template <class Count, class Displ>
void put_blocks(std::byte* first, const TypeInfo& info, const Count* counts, const Displ* displs,
                std::span<ShmBlock> blocks) {
  for (std::size_t peer = 0; peer < blocks.size(); ++peer)
    put_block(blocks[peer], first, info, counts[peer], [&] { return displs[peer] * info.extent; });
}

/// The blocks of a side; false where they are not such.
bool dense_blocks(const Arguments& a, const Side& side, int ranks, std::vector<ShmBlock>& blocks) {
  if (!may_be_dense(a, side)) return false;
  const TypeInfo info = type_info(side.type);
  if (!info.always_dense()) return false;
  std::byte* const first = address_at(side.buffer, info.first);
  if (!a.neighbours) {
    blocks.resize(static_cast<std::size_t>(ranks));
    side.counts != nullptr ? put_blocks(first, info, side.counts, side.displs, blocks)
                           : put_blocks(first, info, side.large_counts, side.large_displs, blocks);
    return true;
  }
  blocks.assign(static_cast<std::size_t>(ranks), {});
  const Edges::Side& edges = a.edges_of(side);
  for (const Edges::Peer& peer : edges.peers) {
    const int at = edges.blocks[static_cast<std::size_t>(peer.first)];
    put_block(blocks[static_cast<std::size_t>(peer.rank)], first, info, side.count_of(at),
              [&] { return block_offset(a.form, side, info, at); });
  }
  return true;
}

}  // namespace

bool MemoryRun::is_dense(const Arguments& a) {
  return may_be_dense(a, a.send) && may_be_dense(a, a.recv) && type_info(a.send.type).always_dense() &&
         type_info(a.recv.type).always_dense();
}

void MemoryRun::begin(ShmBuffers& buffers, const Arguments& arguments, int ranks, Compare compare) {
  if (dense_blocks(arguments, arguments.send, ranks, blocks_.send) &&
      dense_blocks(arguments, arguments.recv, ranks, blocks_.recv)) {
    exchange_.begin(buffers, blocks_.send, blocks_.recv, nullptr, false, compare, true);
    return;
  }
  normalise(arguments, ranks, normal_);
  static_cast<void>(describe(normal_));
  begin_described(buffers, false, false, compare, !normal_.uniform);
}

ShmBlocks& MemoryRun::describe(const Exchange& exchange) {
  blocks_.describe(exchange, alone_comm());
  return blocks_;
}

void MemoryRun::begin_described(ShmBuffers& buffers, bool overlap, bool overwrites, Compare compare,
                                bool known) {
  exchange_.begin(buffers, blocks_.send, blocks_.recv, &blocks_, overlap, compare, known);
  exchange_.take_rooms(overwrites);
}

}  // namespace tapa
