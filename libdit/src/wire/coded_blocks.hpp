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

namespace dit {

/// How memories of an exchange are kept.
struct MemoryOptions {
  float momentum = 0;
  bool ages = false;
  int most_age = 0;
};

/// What one rank remembers of one tensor's exchange: of the blocks to and from `remembered` peers (a flag for
/// each).
class ExchangeMemory {
 public:
  ExchangeMemory(const ExchangeLayout& layout, std::span<const std::uint8_t> remembered,
                 const MemoryOptions& options);
  /// Beforehand.
  [[nodiscard]] static std::uint64_t bytes(const ExchangeLayout& layout,
                                           std::span<const std::uint8_t> remembered,
                                           const MemoryOptions& options);

  [[nodiscard]] BlockMemory sent_to(std::size_t peer) { return sent_.of(peer, options_); }
  [[nodiscard]] BlockMemory received_from(std::size_t peer) { return received_.of(peer, options_); }
  /// What is remembered of sent blocks, kept aside: an encoding that is not sent after all is undone with it.
  struct Sent {
    std::vector<float> value, change;
    std::vector<std::uint16_t> ages;
  };
  void keep_sent(Sent& kept) const;
  void put_back_sent(const Sent& kept);
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

    std::vector<Place> places;
    std::vector<float> value, change;
    std::vector<std::uint16_t> ages;
  };

  MemoryOptions options_;
  Side sent_, received_;
};

/// An exchange in two, each with blocks of no bytes for the peers of the other: those whose blocks this step
/// uses, and those whose blocks are late.
enum class WirePart : std::uint8_t { now, later };

class CodedBlocks {
 public:
  CodedBlocks(ExchangeLayout layout, WireElement element);

  struct Sizes {
    std::vector<dit_block> send, recv;  ///< the peers' blocks in the buffers
    std::size_t send_bytes = 0, recv_bytes = 0;
  };
  /// `modes`: of each peer, both ways.
  [[nodiscard]] Sizes sizes(std::span<const WireMode> modes, WirePart part = WirePart::now) const;

  /// What an encoding left behind, of the blocks that are remembered: squares, summed.
  struct Loss {
    double error = 0;
    double whole = 0;
  };
  /// `memory` null: no mode remembers anything. `memory` knows the peers whose modes do; blocks to them move
  /// its references on in whatever mode.
  void encode(std::span<const WireMode> modes, WirePart part, std::span<const std::byte> tensor,
              ExchangeMemory* memory, std::span<std::byte> buffer, Loss* loss = nullptr);
  /// The tensor, from blocks that came now and from what is remembered of peers whose blocks are late.
  void decode(std::span<const WireMode> modes, std::span<const std::byte> buffer, ExchangeMemory* memory,
              std::span<std::byte> tensor);
  /// Late blocks come into the memory, for the step that follows.
  void remember(std::span<const WireMode> modes, std::span<const std::byte> buffer, ExchangeMemory* memory);

  [[nodiscard]] const ExchangeLayout& layout() const { return layout_; }

 private:
  [[nodiscard]] std::span<std::byte> scratch(const PeerBlock& block);
  void encode_block(const PeerBlock& block, const WireMode& mode, std::span<const std::byte> tensor,
                    BlockMemory* memory, std::span<std::byte> code, Loss* loss);

  ExchangeLayout layout_;
  WireElement element_;
  std::vector<std::byte> scratch_;  // a block as it is in the tensor
};

}  // namespace dit
