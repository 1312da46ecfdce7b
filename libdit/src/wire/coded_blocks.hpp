/// One tensor's exchange with some blocks in fewer bytes: from the tensor to the buffer that is sent, and
/// from the buffer that came to the tensor. Pure, host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dit/exchange.h"
#include "layout/layout.hpp"
#include "wire/block_codec.hpp"
#include "wire/block_loss.hpp"

namespace dit {

/// How memories of an exchange are kept.
struct MemoryOptions {
  float momentum = 0;
  bool ages = false;
  int most_age = 0;
};

/// A flag for each block: of those that are sent, and of those that come.
struct PeerFlags {
  std::vector<std::uint8_t> sent, received;
};

/// What a rank must remember.
struct CacheBytes {
  std::uint64_t reference = 0;  ///< of what it sent
  std::uint64_t received = 0;
  [[nodiscard]] std::uint64_t total() const { return reference + received; }
};

/// What one rank remembers of one tensor's exchange.
class ExchangeMemory {
 public:
  ExchangeMemory(const ExchangeLayout& layout, const PeerFlags& remembered, const MemoryOptions& options);
  /// Beforehand.
  [[nodiscard]] static CacheBytes bytes(const ExchangeLayout& layout, const PeerFlags& remembered,
                                        const MemoryOptions& options);

  [[nodiscard]] BlockMemory sent_to(std::size_t peer) { return sent_.of(peer, options_); }
  [[nodiscard]] BlockMemory received_from(std::size_t peer) { return received_.of(peer, options_); }
  /// What is remembered of sent blocks, kept aside: an encoding that is not sent after all is undone with it.
  struct Sent {
    std::vector<std::uint16_t> value, ages;
    std::vector<std::uint8_t> digits, change;
  };
  void keep_sent(Sent& kept) const;
  void put_back_sent(const Sent& kept);
  void forget();  ///< as new
  /// Ages of received rows; empty when they are not kept.
  [[nodiscard]] std::span<const std::uint16_t> ages() const { return received_.ages; }

 private:
  struct Side {
    struct Place {
      std::size_t number = 0, numbers = 0, row = 0, rows = 0;
    };
    Side(std::span<const PeerBlock> blocks, std::span<const std::uint8_t> remembered,
         const MemoryOptions& options);
    [[nodiscard]] BlockMemory of(std::size_t peer, const MemoryOptions& options);
    void forget();

    std::vector<Place> places;
    std::vector<std::uint16_t> value, ages;
    std::vector<std::uint8_t> digits, change;
  };

  MemoryOptions options_;
  Side sent_, received_;
};

/// An exchange in two, each with blocks of no bytes for the peers of the other: those whose blocks this step
/// uses, and those whose blocks are late.
enum class WirePart : std::uint8_t { now, later };

/// Where V-Major may leave rows behind: in blocks that hold all rows of their sender, in their order. Of
/// other blocks (queries where ranks share a head, replicated text) all rows travel: how many of them are
/// active is the sender's knowledge. Empty flags: everywhere.
struct SampleRows {
  std::int64_t samples = 1;
  PeerFlags whole;
  std::size_t blocks_of_peer = 1;  ///< neighbours among the blocks that are one peer's
};

/// "Peer" below is a block's number, but in messages.
class CodedBlocks {
 public:
  CodedBlocks(ExchangeLayout layout, WireElement element, SampleRows rows = {});

  struct Sizes {
    std::vector<dit_block> send, recv;  ///< the peers' blocks in the buffers
    std::size_t send_bytes = 0, recv_bytes = 0;
  };
  /// `modes`: of each peer, both ways.
  [[nodiscard]] Sizes sizes(std::span<const WireMode> modes, WirePart part = WirePart::now) const;

  /// `memory` null: no mode remembers anything. `memory` knows the peers whose modes do; blocks to them move
  /// its references on in whatever mode. `active`: of V-Major, this rank's rows, ascending, as many of each
  /// sample as the mode says. `loss`: to what it left behind is added, of blocks that are remembered.
  void encode(std::span<const WireMode> modes, WirePart part, const SourceTensor& tensor,
              ExchangeMemory* memory, std::span<std::byte> buffer, BlockLoss* loss = nullptr,
              std::span<const std::uint32_t> active = {});
  /// The tensor, from blocks that came now and from what is remembered of peers whose blocks are late. Throws
  /// std::invalid_argument that names the peer for rows that are not as many as must travel.
  void decode(std::span<const WireMode> modes, std::span<const std::byte> buffer, ExchangeMemory* memory,
              const TargetTensor& tensor);
  /// Late blocks come into the memory, for the step that follows.
  void remember(std::span<const WireMode> modes, std::span<const std::byte> buffer, ExchangeMemory* memory);

  [[nodiscard]] const ExchangeLayout& layout() const { return layout_; }
  /// One block for each peer, of its neighbours in the buffers.
  [[nodiscard]] static Sizes of_peers(Sizes sizes, std::size_t blocks_of_peer);

 private:
  using Flags = std::vector<std::uint8_t>;
  [[nodiscard]] std::span<std::byte> room_for(const PeerBlock& block, std::vector<std::byte>& buffer) const;
  [[nodiscard]] WireMode mode_of(const WireMode& mode, const Flags& whole, std::size_t peer) const;
  [[nodiscard]] BlockCodec codec_of(const WireMode& mode) const { return {mode, element_, rows_.samples}; }
  [[nodiscard]] std::vector<dit_block> places(std::span<const PeerBlock> blocks,
                                              std::span<const WireMode> modes, const Flags& whole,
                                              WirePart part, std::size_t& total) const;
  void encode_block(const PeerBlock& block, const WireMode& mode, const SourceTensor& tensor,
                    BlockMemory* memory, std::span<std::byte> code, BlockLoss* loss,
                    std::span<const std::uint32_t> active);
  void decode_block(const PeerBlock& block, const WireMode& mode, std::span<const std::byte> code,
                    BlockMemory* memory, const TargetTensor& tensor);

  ExchangeLayout layout_;
  WireElement element_;
  SampleRows rows_;
  std::vector<std::byte> scratch_;  // a block as it is in the tensor
};

}  // namespace dit
