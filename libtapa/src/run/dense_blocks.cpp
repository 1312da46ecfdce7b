#include "run/dense_blocks.hpp"

namespace tapa {

/// Of v, with counts and displacements of these types. The next ranks first, so that not all begin alike.
template <class Count, class Displ>
void DenseBlocks::put_counted(std::byte* first, const TypeInfo& info, const Count* counts,
                              const Displ* displs) {
  const auto put_some = [&](std::size_t begin, std::size_t end) {
    for (std::size_t peer = begin; peer < end; ++peer) {
      if (counts[peer] == 0) continue;
      const std::size_t bytes = block_bytes(info, counts[peer]);
      if (bytes != 0) put(peer, address_at(first, displs[peer] * info.extent), bytes);
    }
  };
  put_some(own_, blocks_.size());
  put_some(0, own_);
}

void DenseBlocks::put_edges(std::byte* first, const TypeInfo& info, Form form, const Side& side,
                            const Edges::Side& edges) {
  if (form == Form::uniform) {
    const std::size_t bytes = block_bytes(info, side.count);
    const MPI_Aint step = block_offset(form, side, info, 1);
    if (bytes == 0) return;
    for (const Edges::Peer& peer : edges.peers)
      put(static_cast<std::size_t>(peer.rank),
          address_at(first, step * edges.blocks[static_cast<std::size_t>(peer.first)]), bytes);
    return;
  }
  for (const Edges::Peer& peer : edges.peers) {
    const int at = edges.blocks[static_cast<std::size_t>(peer.first)];
    const std::size_t bytes = block_bytes(info, side.count_of(at));
    if (bytes != 0)
      put(static_cast<std::size_t>(peer.rank), address_at(first, block_offset(form, side, info, at)), bytes);
  }
}

bool DenseBlocks::describe(const Arguments& a, const Side& side, std::size_t own, std::size_t ranks) {
  if (!suit(a, side)) return false;
  static constexpr TypeInfo nothing;
  const TypeInfo& info = is_nothing(a, side) ? nothing : side.info();
  std::byte* const first = address_at(side.buffer, info.first);
  const bool in_row = a.neighbours && a.form == Form::uniform;
  const Row row = in_row ? Row{&a.edges_of(side), first, block_bytes(info, side.count)} : Row{};
  if (in_row && row == row_) return true;  // as in the last call
  row_ = {};
  for (const std::uint32_t other : others_) blocks_[other] = {};
  others_.clear();
  blocks_.resize(ranks);
  blocks_[own] = {};
  own_ = own;
  if (a.neighbours) {
    put_edges(first, info, a.form, side, a.edges_of(side));
  } else if (side.counts != nullptr) {
    put_counted(first, info, side.counts, side.displs);
  } else {
    put_counted(first, info, side.large_counts, side.large_displs);
  }
  row_ = row;
  return true;
}

}  // namespace tapa
