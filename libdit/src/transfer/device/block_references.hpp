/// What one rank remembers of one tensor's exchange in a device's memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transfer/block_coder.hpp"
#include "wire/device/row_steps.hpp"

namespace dit {

/// Of one peer's block.
struct BlockReference {
  ReferenceParts parts{nullptr, nullptr, nullptr};
  float momentum = 0;
  std::uint32_t rows = 0;
  int most_age = 0;
  RowSteps ages;
  // Where rows travel by themselves, of each:
  std::uint32_t* steps = nullptr;  ///< in which it last did so
  float* scores = nullptr;
  std::uint32_t *active = nullptr, *others = nullptr;
};

class BlockReferences final : public BlockCoder::Memory {
 public:
  /// `memory`: the device's; outlives this.
  BlockReferences(const ExchangeLayout& layout, const PeerFlags& remembered, const MemoryOptions& options,
                  const TransferMemory& memory);

  /// Null where nothing is remembered of the peer.
  [[nodiscard]] BlockReference* sent_to(std::size_t peer) { return known(sent_[peer]); }
  [[nodiscard]] BlockReference* received_from(std::size_t peer) { return known(received_[peer]); }

  /// What is remembered of sent blocks, kept aside: an encoding that is not sent after all is undone with it.
  struct Sent {
    TransferBuffer memory;
    std::vector<RowSteps> ages;
  };
  /// Behind what is in the stream. `kept`: of the same device, used again and again.
  void keep_sent(Sent& kept, void* stream) const;
  void put_back_sent(const Sent& kept, void* stream);

  void forget(void* stream) override;
  /// Waits for the device.
  void count_ages(std::vector<std::uint64_t>& rows_by_age) const override;

  /// Parts begin at multiples of so many bytes.
  static constexpr std::size_t kAlignment = 128;
  [[nodiscard]] static std::size_t aligned(std::size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

 private:
  static BlockReference* known(BlockReference& of) { return of.parts.value != nullptr ? &of : nullptr; }

  bool counts_ages_;
  std::size_t sent_bytes_;  // of the buffer; those of received blocks follow
  const TransferMemory& memory_;
  TransferBuffer buffer_;
  std::vector<BlockReference> sent_, received_;
};

}  // namespace dit
