#include "floor.hpp"

#include <cstring>

namespace tapa::bench {

Floor::Floor(MPI_Comm comm) : comm_(comm) {
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  int here = 0;
  int all = 0;
  MPI_Comm_size(node, &here);
  MPI_Comm_size(comm, &all);
  possible_ = here == all;  // the same on all ranks: either one node has all of them or none does
  MPI_Comm_free(&node);
}

Floor::~Floor() {
  free();
}

void Floor::free() {
  if (window_ != MPI_WIN_NULL) MPI_Win_free(&window_);
}

void Floor::resize(const Exchange& exchange) {
  free();
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(comm_, &rank);
  MPI_Comm_size(comm_, &ranks);
  std::size_t sent = 1;
  for (int peer = 0; peer < ranks; ++peer) sent += exchange.block_bytes(rank, peer);
  char* own = nullptr;
  MPI_Win_allocate_shared(static_cast<MPI_Aint>(sent), 1, MPI_INFO_NULL, comm_, static_cast<void*>(&own),
                          &window_);
  std::memset(own, 1, sent);  // so that its pages are this rank's
  blocks_.clear();
  std::size_t received = 0;
  for (int i = 0; i < ranks; ++i) {
    const int peer = (rank + i) % ranks;
    MPI_Aint size = 0;
    int unit = 0;
    const char* base = nullptr;
    MPI_Win_shared_query(window_, peer, &size, &unit, static_cast<void*>(&base));
    for (int before = 0; before < rank; ++before) base += exchange.block_bytes(peer, before);
    blocks_.push_back({base, exchange.block_bytes(peer, rank)});
    received += blocks_.back().bytes;
  }
  recv_.assign(received + 1, 0);
  MPI_Barrier(comm_);
}

void Floor::copy() {
  char* to = recv_.data();
  for (const Block& block : blocks_) {
    std::memcpy(to, block.from, block.bytes);
    to += block.bytes;
  }
}

}  // namespace tapa::bench
