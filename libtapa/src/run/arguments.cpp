#include "run/arguments.hpp"

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "run/error.hpp"

namespace tapa {

namespace {

// The first page of memory is never mapped: data there means a null pointer that is not MPI_BOTTOM with
// addresses.
constexpr std::intptr_t kLowestAddress = 4096;

struct Names {
  const char* buffer;
  const char* count;
  const char* displ;
  const char* type;
};
constexpr Names send_names{"sendbuf", "sendcount", "sdispls", "sendtype"};
constexpr Names recv_names{"recvbuf", "recvcount", "rdispls", "recvtype"};

std::string indexed(const char* name, Form form, int peer) {
  if (form == Form::uniform) return name;
  return std::string(name) + "s[" + std::to_string(peer) + "]";
}

void require_arrays(const Arguments& a, const Side& side, const Names& names) {
  const auto null = [](const std::string& what) {
    throw CallError(MPI_ERR_ARG, what + " is null, expected an array");
  };
  if (side.counts == nullptr && side.large_counts == nullptr) null(std::string(names.count) + "s");
  if (side.displs == nullptr && side.large_displs == nullptr) null(names.displ);
  if (a.form == Form::w && side.types == nullptr) null(std::string(names.type) + "s");
}

TypeInfo named_type_info(const Arguments& a, const Side& side, const Names& names, int peer) {
  const MPI_Datatype type = side.type_of(peer);
  if (type == MPI_DATATYPE_NULL) {
    throw CallError(MPI_ERR_TYPE,
                    (a.form == Form::w ? indexed(names.type, a.form, peer) : std::string(names.type)) +
                        " is MPI_DATATYPE_NULL, expected a datatype");
  }
  return type_info(type);
}

/// Bytes of a block, checked against overflow.
std::size_t bytes_of(const TypeInfo& info, MPI_Count count) {
  if (info.size != 0 &&
      static_cast<std::uint64_t>(count) > std::numeric_limits<MPI_Aint>::max() / info.size) {
    throw CallError(MPI_ERR_COUNT, "count " + std::to_string(count) + " of a type of " +
                                       std::to_string(info.size) + " bytes exceeds the address space");
  }
  return static_cast<std::size_t>(count) * info.size;
}

/// Offset of a peer's block from the buffer.
MPI_Aint offset_of(const Arguments& a, const Side& side, const TypeInfo& info, int peer) {
  if (a.form == Form::uniform) return static_cast<MPI_Aint>(side.count) * info.extent * peer;
  return side.displ_of(peer) * (a.form == Form::v ? info.extent : 1);
}

void check_side(const Arguments& a, const Side& side, const Names& names, int ranks) {
  if (a.form != Form::uniform) require_arrays(a, side, names);
  const int peers = a.form == Form::uniform ? 1 : ranks;
  TypeInfo info;
  for (int peer = 0; peer < peers; ++peer) {
    if (peer == 0 || a.form == Form::w) info = named_type_info(a, side, names, peer);
    const MPI_Count count = side.count_of(peer);
    if (count < 0) {
      throw CallError(MPI_ERR_COUNT, indexed(names.count, a.form, peer) + " is " + std::to_string(count) +
                                         ", expected 0 or more");
    }
    if (bytes_of(info, count) == 0 || side.buffer != nullptr) continue;
    if (offset_of(a, side, info, peer) + info.first < kLowestAddress) {
      throw CallError(MPI_ERR_BUFFER, std::string(names.buffer) + " is null, expected a buffer of " +
                                          indexed(names.count, a.form, peer) + " = " + std::to_string(count) +
                                          " elements");
    }
  }
}

void check_uniform_sizes(const Arguments& a) {
  const std::size_t sent = bytes_of(type_info(a.send.type), a.send.count);
  const std::size_t received = bytes_of(type_info(a.recv.type), a.recv.count);
  if (sent != received) {
    throw CallError(MPI_ERR_TRUNCATE, "sendcount and sendtype make " + std::to_string(sent) +
                                          " bytes per block, recvcount and recvtype " +
                                          std::to_string(received) + ", expected the same");
  }
}

void fill_side(const Arguments& a, const Side& side, int ranks, std::vector<Block>& blocks) {
  blocks.resize(static_cast<std::size_t>(ranks));
  TypeInfo info;
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer == 0 || a.form == Form::w) info = type_info(side.type_of(peer));
    const MPI_Count count = side.count_of(peer);
    // Addresses are computed as integers: MPI_BOTTOM is null, and arithmetic on null pointers is not defined.
    const auto base = reinterpret_cast<std::intptr_t>(side.buffer) + offset_of(a, side, info, peer);
    Block block;
    block.bytes = bytes_of(info, count);
    block.count = count;
    if (block.bytes != 0) {
      const bool dense = info.dense(count);
      block.data = reinterpret_cast<std::byte*>(dense ? base + info.first : base);
      if (!dense) block.type = side.type_of(peer);
    }
    blocks[static_cast<std::size_t>(peer)] = block;
  }
}

}  // namespace

void check_arguments(const Arguments& a, int ranks) {
  if (a.recv.buffer == MPI_IN_PLACE) {
    throw CallError(MPI_ERR_BUFFER,
                    "recvbuf is MPI_IN_PLACE, expected a buffer (MPI_IN_PLACE is for sendbuf)");
  }
  check_side(a, a.recv, recv_names, ranks);
  if (a.in_place()) return;
  check_side(a, a.send, send_names, ranks);
  if (a.form == Form::uniform) {
    check_uniform_sizes(a);
    if (a.send.buffer == a.recv.buffer && a.send.buffer != nullptr && a.send.count > 0 &&
        type_info(a.send.type).size > 0) {
      throw CallError(MPI_ERR_BUFFER,
                      "sendbuf and recvbuf are the same, expected MPI_IN_PLACE as sendbuf for that");
    }
  }
}

void normalise(const Arguments& a, int ranks, Exchange& exchange) {
  exchange.in_place = a.in_place();
  exchange.uniform = a.form == Form::uniform;
  fill_side(a, a.recv, ranks, exchange.recv);
  if (exchange.in_place) {
    exchange.send = exchange.recv;
  } else {
    fill_side(a, a.send, ranks, exchange.send);
  }
  exchange.uniform_bytes = exchange.uniform ? exchange.send[0].bytes : 0;
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
  if (!block.runs.empty()) {
    gather_rows(block.data, block.row_bytes, block.runs, to);
  } else if (block.type != MPI_DATATYPE_NULL) {
    pack(block.data, block.count, block.type, type_info(block.type), to, comm);
  } else {
    std::memcpy(to, block.data, block.bytes);
  }
}

void scatter_block(const std::byte* from, const Block& block, MPI_Comm comm) {
  if (!block.runs.empty()) {
    scatter_rows(from, block.data, block.row_bytes, block.runs);
  } else if (block.type != MPI_DATATYPE_NULL) {
    unpack(from, block.data, block.count, block.type, type_info(block.type), comm);
  } else {
    std::memcpy(block.data, from, block.bytes);
  }
}

}  // namespace tapa
