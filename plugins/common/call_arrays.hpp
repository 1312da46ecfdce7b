/// A call as an alltoallv takes it: the blocks of its buffers, or its selected rows, packed.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <span>

#include "common/block_arrays.hpp"
#include "exchange/select_rows.hpp"

namespace dit {

/// The types are those of the alltoallv. The call's buffers stay until finish.
template <class Count, class Displacement>
class CallArrays {
 public:
  CallArrays(const dit_exchange_call& call, const ContextPlace& place)
      : packed_(call.selection == nullptr ? nullptr : std::make_unique<PackedCall>(call, place)),
        send_(packed_ ? packed_->send_blocks() : std::span(call.send_blocks, place.size()), "send_blocks"),
        recv_(packed_ ? packed_->recv_blocks() : std::span(call.recv_blocks, place.size()), "recv_blocks"),
        send_data_(
            send_.base(packed_ ? packed_->packed_send().data() : static_cast<const std::byte*>(call.send))),
        recv_data_(recv_.base(packed_ ? packed_->packed_recv().data() : static_cast<std::byte*>(call.recv))) {
  }

  /// What the alltoallv returns; `request` only for a nonblocking one.
  template <class Alltoallv, class... Request>
  [[nodiscard]] int pass_to(Alltoallv alltoallv, MPI_Comm comm, Request... request) const {
    return alltoallv(send_data_, send_.counts.data(), send_.displacements.data(), MPI_BYTE, recv_data_,
                     recv_.counts.data(), recv_.displacements.data(), MPI_BYTE, comm, request...);
  }
  /// Puts what was received in its place.
  void finish() const {
    if (packed_) packed_->unpack();
  }

 private:
  std::unique_ptr<PackedCall> packed_;
  BlockArrays<Count, Displacement> send_, recv_;
  const std::byte* send_data_;
  std::byte* recv_data_;
};

}  // namespace dit
