#include "run/memory_run.hpp"

#include <limits>
#include <vector>

#include "run/private_comm.hpp"

namespace tapa {

namespace {

/// The blocks of one side of a v call with int counts; false when they are not all dense.
bool dense_blocks(const Side& side, int ranks, std::vector<ShmBlock>& blocks) {
  const TypeInfo info = type_info(side.type);
  const bool countable = info.size < std::numeric_limits<MPI_Aint>::max() >> 31;
  if (side.counts == nullptr || !info.always_dense() || !countable) return false;
  blocks.resize(static_cast<std::size_t>(ranks));
  for (std::size_t peer = 0; peer < blocks.size(); ++peer) {
    const auto bytes = static_cast<std::size_t>(side.counts[peer]) * info.size;
    std::byte* const data = address_at(side.buffer, side.displs[peer] * info.extent + info.first);
    blocks[peer] = {bytes == 0 ? nullptr : data, bytes, 0};
  }
  return true;
}

/// The same of a call along edges, where no rank has two blocks.
bool dense_blocks(const Arguments& a, const Side& side, int ranks, std::vector<ShmBlock>& blocks) {
  const Edges::Side& edges = a.edges_of(side);
  if (a.form == Form::w || edges.repeats) return false;
  const TypeInfo info = type_info(side.type);
  if (!info.always_dense()) return false;
  blocks.assign(static_cast<std::size_t>(ranks), {});
  for (const Edges::Peer& peer : edges.peers) {
    const int at = edges.blocks[static_cast<std::size_t>(peer.first)];
    const std::size_t bytes = block_bytes(info, side.count_of(at));
    if (bytes == 0) continue;
    std::byte* const data = address_at(side.buffer, block_offset(a.form, side, info, at) + info.first);
    blocks[static_cast<std::size_t>(peer.rank)] = {data, bytes, 0};
  }
  return true;
}

bool dense_blocks(const Arguments& a, int ranks, ShmBlocks& blocks) {
  if (a.neighbours)
    return dense_blocks(a, a.send, ranks, blocks.send) && dense_blocks(a, a.recv, ranks, blocks.recv);
  return a.form == Form::v && dense_blocks(a.send, ranks, blocks.send) &&
         dense_blocks(a.recv, ranks, blocks.recv);
}

}  // namespace

void MemoryRun::begin(ShmBuffers& buffers, const Arguments& arguments, int ranks, Compare compare) {
  if (dense_blocks(arguments, ranks, blocks_)) {
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
