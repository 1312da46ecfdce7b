#include "run/arguments.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>

#include "run/error.hpp"
#include "run/scratch.hpp"
#include "run/type_layout.hpp"

namespace tapa {

namespace {

/// Equal blocks of dense elements.
void fill_row(const Side& side, const TypeInfo& info, std::vector<Block>& blocks) {
  Block block;
  block.bytes = block_bytes(info, side.count);
  block.count = side.count;
  const MPI_Aint step = block_offset(Form::uniform, side, info, 1);
  std::byte* const first = address_at(side.buffer, info.first);
  MPI_Aint at = 0;
  for (Block& b : blocks) {
    if (block.bytes != 0) block.data = address_at(first, at);
    b = block;
    at += step;
  }
}

Block block_of(const Arguments& a, const Side& side, const TypeInfo& info, int peer) {
  Block block;
  block.count = side.count_of(peer);
  block.bytes = block_bytes(info, block.count);
  if (block.bytes == 0) return block;
  const bool dense = info.dense(block.count);
  block.data = address_at(side.buffer, block_offset(a.form, side, info, peer) + (dense ? info.first : 0));
  if (dense) return block;
  constexpr std::size_t kLong = std::size_t{16} << 10;
  block.type = side.type_of(peer);
  if (block.bytes >= kLong) read_recipe(block.type);
  return block;
}

void fill_side(const Arguments& a, const Side& side, int ranks, std::vector<Block>& blocks) {
  blocks.resize(static_cast<std::size_t>(ranks));
  TypeInfo info;
  if (a.form == Form::uniform) {
    info = type_info(side.type);
    if (info.dense(side.count)) return fill_row(side, info, blocks);
  }
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer == 0 || a.form == Form::w) info = type_info(side.type_of(peer));
    blocks[static_cast<std::size_t>(peer)] = block_of(a, side, info, peer);
  }
}

/// The blocks along the edges of a neighbourhood; `parts`: of those of a rank that has several.
void fill_edges(const Arguments& a, const Side& side, int ranks, std::vector<Block>& blocks,
                std::vector<Block>& parts) {
  const Edges::Side& edges = a.edges_of(side);
  blocks.assign(static_cast<std::size_t>(ranks), {});
  parts.clear();
  parts.reserve(edges.repeats ? edges.blocks.size() : 0);  // spans point there
  TypeInfo info;
  if (a.form != Form::w && !edges.peers.empty()) info = type_info(side.type);
  const auto described = [&](int block) {
    if (a.form == Form::w) info = type_info(side.type_of(block));
    return block_of(a, side, info, block);
  };
  for (const Edges::Peer& peer : edges.peers) {
    const std::span own =
        std::span(edges.blocks)
            .subspan(static_cast<std::size_t>(peer.first), static_cast<std::size_t>(peer.number));
    Block& block = blocks[static_cast<std::size_t>(peer.rank)];
    if (own.size() == 1) {
      block = described(own[0]);
      continue;
    }
    const std::size_t first = parts.size();
    for (const int one : own) {
      parts.push_back(described(one));
      block.bytes += parts.back().bytes;
    }
    block.parts = std::span(parts).subspan(first);
  }
}

/// Of equal blocks only so much is received as is sent: MPI lets a receiver expect more.
void shorten(std::vector<Block>& blocks, std::size_t bytes) {
  for (Block& block : blocks) block.bytes = std::min(block.bytes, bytes);
}

/// Whether dense blocks of both sides share memory; of others it is taken to be so.
bool share_memory(const std::vector<Block>& send, const std::vector<Block>& recv) {
  struct Span {
    const std::byte* begin = nullptr;
    const std::byte* end = nullptr;
    bool known = true;
    [[nodiscard]] bool empty() const { return known && begin == nullptr; }
  };
  const auto span_of = [](const std::vector<Block>& blocks) {
    Span span;
    for (const Block& block : blocks) {
      if (block.bytes == 0) continue;
      span.known = span.known && block.dense();
      if (!span.known) break;
      if (span.begin == nullptr || std::less<>()(block.data, span.begin)) span.begin = block.data;
      if (std::less<>()(span.end, block.data + block.bytes)) span.end = block.data + block.bytes;
    }
    return span;
  };
  const Span a = span_of(send);
  const Span b = span_of(recv);
  if (a.empty() || b.empty()) return false;
  return !a.known || !b.known || (std::less<>()(a.begin, b.end) && std::less<>()(b.begin, a.end));
}

}  // namespace

void refuse_count(const TypeInfo& info, MPI_Count count) {
  throw CallError(MPI_ERR_COUNT, "count " + std::to_string(count) + " of a type of " +
                                     std::to_string(info.size) + " bytes exceeds the address space");
}

std::optional<std::size_t> edge_bytes(const Arguments& a) {
  if (!a.neighbours || a.form != Form::uniform || a.edges->send.peers.empty()) return std::nullopt;
  return block_bytes(type_info(a.send.type), a.send.count);
}

void normalise(const Arguments& a, int ranks, Exchange& exchange) {
  if (a.neighbours) {
    exchange.in_place = exchange.uniform = false;
    exchange.uniform_bytes = 0;
    fill_edges(a, a.send, ranks, exchange.send, exchange.send_parts);
    fill_edges(a, a.recv, ranks, exchange.recv, exchange.recv_parts);
    exchange.overlaps = a.has_equal_buffers() && share_memory(exchange.send, exchange.recv);
    return;
  }
  exchange.in_place = a.in_place();
  exchange.uniform = a.form == Form::uniform;
  fill_side(a, a.recv, ranks, exchange.recv);
  if (exchange.in_place) {
    exchange.send = exchange.recv;
  } else {
    fill_side(a, a.send, ranks, exchange.send);
  }
  exchange.uniform_bytes = exchange.uniform ? exchange.send[0].bytes : 0;
  if (exchange.uniform) shorten(exchange.recv, exchange.uniform_bytes);
  exchange.overlaps =
      exchange.in_place || (a.has_equal_buffers() && share_memory(exchange.send, exchange.recv));
}

std::byte* in_row(const std::vector<Block>& blocks, std::size_t bytes) {
  std::byte* next = blocks[0].data;
  for (const Block& block : blocks) {
    if (!block.dense() || block.data != next) return nullptr;
    next += bytes;
  }
  return blocks[0].data;
}

void gather_block(const Block& block, std::byte* to, MPI_Comm comm) {
  if (block.bytes == 0) return;
  if (!block.parts.empty()) {
    for (const Block& part : block.parts) {
      gather_block(part, to, comm);
      to += part.bytes;
    }
  } else if (!block.runs.empty()) {
    gather_rows(block.data, block.row_bytes, block.runs, to);
  } else if (block.type != MPI_DATATYPE_NULL) {
    pack(block.data, block.count, block.type, type_info(block.type), to, comm);
  } else {
    std::memcpy(to, block.data, block.bytes);
  }
}

void scatter_block(const std::byte* from, const Block& block, MPI_Comm comm) {
  if (block.bytes == 0) return;
  if (!block.parts.empty()) {
    for (const Block& part : block.parts) {
      scatter_block(from, part, comm);
      from += part.bytes;
    }
  } else if (!block.runs.empty()) {
    scatter_rows(from, block.data, block.row_bytes, block.runs);
  } else if (block.type != MPI_DATATYPE_NULL) {
    unpack_part(from, block.data, 0, block.bytes, block.type, type_info(block.type), comm);
  } else {
    std::memcpy(block.data, from, block.bytes);
  }
}

bool is_copied_straight(const Block& from, const Block& to) {
  const auto has_runs = [](const Block& block) {
    return block.type != MPI_DATATYPE_NULL && type_info(block.type).runs != 0;
  };
  return from.dense() || to.dense() || (has_runs(from) && has_runs(to));
}

void copy_block(const Block& from, const Block& to, MPI_Comm comm) {
  if (to.dense()) return gather_block(from, to.data, comm);
  if (from.dense()) return scatter_block(from.data, to, comm);
  const bool types = from.type != MPI_DATATYPE_NULL && to.type != MPI_DATATYPE_NULL;
  if (types && copy_elements(from.data, type_info(from.type), to.data, type_info(to.type), from.bytes))
    return;
  const Scratch packed(from.bytes);
  gather_block(from, packed.data(), comm);
  scatter_block(packed.data(), to, comm);
}

}  // namespace tapa
