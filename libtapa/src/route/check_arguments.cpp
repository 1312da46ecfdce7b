#include "route/check_arguments.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "run/device_memory.hpp"
#include "run/own_mpi.hpp"
#include "run/private_comm.hpp"

namespace tapa {

namespace {

// The first page is never mapped: data there means a null pointer that is not MPI_BOTTOM with addresses.
constexpr std::intptr_t kLowestAddress = 4096;

struct Names {
  const char* buffer;
  const char* count;
  const char* displ;
  const char* type;
};
constexpr Names send_names{"sendbuf", "sendcount", "sdispls", "sendtype"};
constexpr Names recv_names{"recvbuf", "recvcount", "rdispls", "recvtype"};

template <class... Parts>
[[noreturn]] void refuse_mistake(int code, const Parts&... message) {
  throw Mistake(code, words(message...));
}

std::string indexed(const char* name, bool one, int peer) {
  return one ? std::string(name) : words(name, "s[", peer, "]");
}

void require_arrays(const Arguments& a, const Side& side, const Names& names) {
  const auto require = [](bool there, const char* name, const char* plural) {
    if (!there) refuse_mistake(MPI_ERR_ARG, name, plural, " is null, expected an array");
  };
  require(side.counts != nullptr || side.large_counts != nullptr, names.count, "s");
  require(side.displs != nullptr || side.large_displs != nullptr, names.displ, "");
  require(a.form != Form::w || side.types != nullptr, names.type, "s");
}

/// Of the type of a block; `copy`: for one of w.
const TypeInfo& named_type_info(const Arguments& a, const Side& side, const Names& names, int peer,
                                TypeInfo& copy) {
  const MPI_Datatype type = side.type_of(peer);
  const auto name = [&] { return indexed(names.type, a.form != Form::w, peer); };
  if (type == MPI_DATATYPE_NULL)
    refuse_mistake(MPI_ERR_TYPE, name(), " is MPI_DATATYPE_NULL, expected a datatype");
  const TypeInfo& info = a.form == Form::w ? copy = type_info(type) : side.info();
  if (!info.committed)
    refuse_mistake(MPI_ERR_TYPE, name(), " is not committed, expected a datatype after MPI_Type_commit");
  return info;
}

/// Whether one look at all counts of a v call shows that none is wrong.
bool counts_are_right(const Side& side, const TypeInfo& info, int blocks) {
  if (side.counts == nullptr || side.buffer == nullptr || info.size >> 32 != 0) return false;
  int all = 0;
  for (int block = 0; block < blocks; ++block) all |= side.counts[block];
  return all >= 0;
}

void check_side(const Arguments& a, const Side& side, const Names& names, int ranks) {
  const bool uniform = a.form == Form::uniform;
  const int blocks = a.blocks(side, ranks);
  if (!uniform && blocks > 0) require_arrays(a, side, names);
  const int peers = uniform ? std::min(blocks, 1) : blocks;
  TypeInfo of_block;
  for (int peer = 0; peer < peers; ++peer) {
    const TypeInfo& info = named_type_info(a, side, names, peer, of_block);
    if (peer == 0 && a.form == Form::v && counts_are_right(side, info, blocks)) return;
    const MPI_Count count = side.count_of(peer);
    if (count < 0)
      refuse_mistake(MPI_ERR_COUNT, indexed(names.count, uniform, peer), " is ", count,
                     ", expected 0 or more");
    if (block_bytes(info, count) == 0 || side.buffer != nullptr || a.leads_nowhere(side, peer)) continue;
    if (block_offset(a.form, side, info, peer) + info.first < kLowestAddress)
      refuse(MPI_ERR_BUFFER, names.buffer, " is null, expected a buffer of ",
             indexed(names.count, uniform, peer), " = ", count, " elements");
  }
}

}  // namespace

void refuse_device_memory(const char* name, const char* why) {
  refuse(MPI_ERR_BUFFER, name, " is GPU memory, expected host memory: ", why);
}

void require_host_memory(const void* address, const char* name, const char* why) {
  if (is_device_memory(address)) refuse_device_memory(name, why);
}

void check_arguments(const Arguments& a, int ranks, bool strict, int own) {
  if (a.recv.buffer == MPI_IN_PLACE)
    refuse_mistake(MPI_ERR_BUFFER,
                   "recvbuf is MPI_IN_PLACE, expected a buffer (MPI_IN_PLACE is for sendbuf)");
  if (a.neighbours && a.in_place())
    refuse_mistake(MPI_ERR_BUFFER,
                   "sendbuf is MPI_IN_PLACE, expected a buffer: neighbours have none in place");
  check_side(a, a.recv, recv_names, ranks);
  if (a.in_place()) return;
  check_side(a, a.send, send_names, ranks);
  if (a.neighbours) return;  // whom ends belong to differs from edge to edge
  const bool uniform = a.form == Form::uniform;
  if (own < 0 && !uniform) return;
  // Of the block that this rank sends to itself, or of all blocks where they are equal.
  const int peer = uniform ? 0 : own;
  const auto bytes_of = [&](const Side& side) {
    return block_bytes(a.form == Form::w ? type_info(side.types[peer]) : side.info(), side.count_of(peer));
  };
  const std::size_t sent = bytes_of(a.send);
  const std::size_t received = bytes_of(a.recv);
  if (own >= 0 && sent != received)
    refuse_mistake(MPI_ERR_TRUNCATE, indexed(send_names.count, uniform, own), " and its type make ", sent,
                   " bytes, ", indexed(recv_names.count, uniform, own), " and its type ", received,
                   ", expected the same");
  if (uniform && (sent > received || (strict && sent != received)))
    refuse(MPI_ERR_TRUNCATE, "sendcount and sendtype make ", sent,
           " bytes per block, recvcount and recvtype ", received,
           strict ? ", expected the same" : ", expected no fewer");
  if (uniform && strict && sent > 0 && a.has_equal_buffers())
    refuse(MPI_ERR_BUFFER, "sendbuf and recvbuf are the same, expected MPI_IN_PLACE as sendbuf for that");
}

// On a communicator of this rank alone, with calls that do no harm where they are not refused.
const MpiChecks& mpi_checks() {
  static const MpiChecks found = [] {
    char sent = 0;
    std::array<char, 2> received{};
    int position = 0;
    const int none = 0;
    const int one = 1;
    const int two = 2;
    const MPI_Comm comm = alone_comm();
    const int typeless = PMPI_Pack(&sent, 0, MPI_DATATYPE_NULL, received.data(), 1, &position, comm);
    // Not of 0 and 1 bytes: MPICH, which compares nothing, would wait for ever for the second.
    const int shorter = TAPA_OWN_MPI(PMPI_Alltoallv)(&sent, &one, &none, MPI_BYTE, received.data(), &two,
                                                     &none, MPI_BYTE, comm);
    return MpiChecks{typeless != MPI_SUCCESS, shorter != MPI_SUCCESS};
  }();
  return found;
}

}  // namespace tapa
