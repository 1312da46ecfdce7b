/// Which bytes of a call travel, and packing of them for plugins whose layer below knows no row selection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dit/exchange.h"
#include "exchange/check_call.hpp"

namespace dit {

/// Bytes that lie together in a buffer.
struct ByteRun {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

[[nodiscard]] std::size_t total_bytes(std::span<const ByteRun> runs);

/// Bytes of a peer's block, whichever of the two arrays is given (the strided one, if both are).
[[nodiscard]] std::size_t block_bytes(const dit_block* blocks, const dit_strided_block* strided,
                                      std::size_t peer);

/// True when only the active rows travel to and from a peer.
[[nodiscard]] bool rows_selected(const dit_exchange_call& call, const ContextPlace& place, int peer);

/// What travels to a peer: parts of the send buffer in order, neighbouring rows joined. Empty for an empty
/// block. The call has been checked (check_call).
[[nodiscard]] std::vector<ByteRun> send_runs(const dit_exchange_call& call, const ContextPlace& place,
                                             int peer);
/// Where what comes from a peer goes: parts of the receive buffer.
[[nodiscard]] std::vector<ByteRun> recv_runs(const dit_exchange_call& call, const ContextPlace& place,
                                             int peer);

/// Bytes that travel to a peer and from it, without a list of them.
[[nodiscard]] std::size_t bytes_to(const dit_exchange_call& call, const ContextPlace& place, int peer);
[[nodiscard]] std::size_t bytes_from(const dit_exchange_call& call, const ContextPlace& place, int peer);

/// Adds what a call sends to other ranks; what a rank sends to itself is not counted.
void count_sent(const dit_exchange_call& call, const ContextPlace& place, dit_exchange_totals& totals);

/// Copies runs of `buffer` to `packed`, one after the other, and back.
void gather_runs(const void* buffer, std::span<const ByteRun> runs, std::byte* packed);
void scatter_runs(const std::byte* packed, std::span<const ByteRun> runs, void* buffer);

/// A call with its rows packed: a plain exchange of packed_send for packed_recv does the same. The rank's own
/// block does not go through the packed buffers (its packed blocks are empty): unpack copies it. The call's
/// arrays are not needed after the constructor, its buffers are until unpack.
class PackedCall {
 public:
  /// Packs what is sent.
  PackedCall(const dit_exchange_call& call, const ContextPlace& place);
  [[nodiscard]] std::span<const std::byte> packed_send() const { return send_; }
  [[nodiscard]] std::span<std::byte> packed_recv() { return recv_; }
  [[nodiscard]] std::span<const dit_block> send_blocks() const { return send_blocks_; }
  [[nodiscard]] std::span<const dit_block> recv_blocks() const { return recv_blocks_; }
  /// Puts what was received, and the rank's own block, in place.
  void unpack() const;

 private:
  std::vector<std::byte> send_, recv_;
  std::vector<dit_block> send_blocks_, recv_blocks_;
  std::vector<ByteRun> recv_runs_;  // of all peers, in rank order: as packed_recv lies
  const void* send_buffer_;
  void* recv_buffer_;
  dit_block own_send_, own_recv_;
};

}  // namespace dit
