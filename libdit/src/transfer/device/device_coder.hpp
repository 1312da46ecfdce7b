/// Blocks under a policy in a device's memory: encoded out of the tensor's strides, decoded into them, by
/// kernels on the caller's stream. Codes, what is remembered, and what is decoded have the bits of
/// CodedBlocks.
#pragma once

#include "transfer/block_coder.hpp"
#include "transfer/device/block_losses.hpp"
#include "transfer/device/block_references.hpp"
#include "wire/device/code_launcher.hpp"

namespace dit {

class DeviceCoder final : public BlockCoder {
 public:
  /// `memory` and `launcher`: the device's; they outlive this.
  DeviceCoder(ExchangeLayout layout, WireElement element, SampleRows rows, const TransferMemory& memory,
              CodeLauncher& launcher);

  [[nodiscard]] std::unique_ptr<Memory> make_memory(const PeerFlags& remembered,
                                                    const MemoryOptions& options) const override;
  /// The sizes of CodedBlocks; blocks begin at multiples of BlockReferences::kAlignment bytes.
  [[nodiscard]] CodedBlocks::Sizes sizes(std::span<const WireMode> modes, WirePart part) const override;
  void encode(std::span<const WireMode> modes, WirePart part, const SourceTensor& tensor, Memory* memory,
              const TransferBuffer& buffer, bool watched, std::span<const std::uint32_t> active,
              void* stream) override;
  void decode(std::span<const WireMode> modes, const TransferBuffer& buffer, Memory* memory,
              const TargetTensor& tensor, void* stream) override;
  void remember(std::span<const WireMode> modes, const TransferBuffer& buffer, Memory* memory,
                void* stream) override;

  [[nodiscard]] bool can_watch(void* stream) const override { return !memory_.is_capturing(stream); }
  [[nodiscard]] BlockLoss take_loss(void* stream) override { return losses_.take(stream); }
  void keep_sent(const Memory& memory, void* stream) override;
  void put_back_sent(Memory& memory, void* stream) override;

 private:
  /// A block that is not copied as it is: its job in a mode. `memory` null: nothing is remembered of it.
  void add_encode(const PeerBlock& block, const WireMode& mode, const BlockPlace& place,
                  BlockReference* memory, std::uint8_t* code, std::span<const std::uint32_t> active);
  void add_decode(const PeerBlock& block, const WireMode& mode, const BlockPlace& place,
                  BlockReference* memory, std::uint8_t* code);
  /// What of the block its receiver lacks, all rows.
  void add_loss(const PeerBlock& block, const BlockPlace& place, const BlockReference& memory);
  /// Some of a block's rows travel. `first`: they are measured here, read from the code, or V-Major's
  /// `active` ones, which are written.
  void add_rows(RowWork first, const PeerBlock& block, const WireMode& mode, const BlockPlace& place,
                BlockReference* memory, std::uint8_t* code, std::span<const std::uint32_t> active);
  [[nodiscard]] RowChoice choice_for(const PeerBlock& block, const BlockPlace& place, BlockReference& memory,
                                     std::int64_t travelling, std::uint8_t* code) const;
  [[nodiscard]] WireMode mode_of(const WireMode& mode, const std::vector<std::uint8_t>& whole,
                                 std::size_t peer) const;
  [[nodiscard]] CodeJob job_for(const PeerBlock& block, const WireMode& mode, const BlockPlace& place,
                                const BlockReference* memory, std::uint8_t* code) const;
  [[nodiscard]] LaneFormat format_for(const WireMode& mode) const;

  SampleRows rows_;
  CodedBlocks blocks_;  // for sizes
  WireElement element_;
  const TransferMemory& memory_;
  CodeLauncher& launcher_;
  CodeQueue queue_;
  BlockLosses losses_;
  BlockReferences::Sent kept_;
};

#ifdef DIT_HAVE_CUDA
/// Of the current device.
[[nodiscard]] CodeLauncher& cuda_code_launcher();
#endif

}  // namespace dit
