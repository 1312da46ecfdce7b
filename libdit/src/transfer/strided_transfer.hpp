/// A tensor on a device that travels as it is, out of the source's strides into the target's: no packing, no
/// permutation. For plugins with DIT_CAPABILITY_DEVICE_STRIDED. Where a tensor's strides are too many for
/// that (strided_blocks.hpp), and only there, it goes through a buffer.
#pragma once

#include <optional>
#include <vector>

#include "transfer/strided_blocks.hpp"
#include "transfer/tensor_transfer.hpp"
#include "transfer/transfer_memory.hpp"

namespace dit {

class StridedTransfer final : public TensorTransfer {
 public:
  /// `memory_kind`: a device's, of both tensors. The context must outlive this.
  StridedTransfer(ExchangeContext& context, const UlyssesLayout& layout, const TransferPart& part,
                  std::size_t element_bytes, int memory_kind);

  void pack(const SourceTensor& source, const TransferPlace& place, std::span<const std::uint32_t> active,
            void* stream) override;
  [[nodiscard]] ExchangeRequest start(const TargetTensor& target, const TransferStart& how) override;
  void finish() override;
  void finish_on(void* stream) override;
  [[nodiscard]] std::uint64_t slow_bytes(int layer) const override;
  [[nodiscard]] std::size_t workspace_bytes() const override;
  void use_workspace(std::span<std::byte> workspace) override;
  [[nodiscard]] TransferBuffers release_buffers() override;

 private:
  using Blocks = std::vector<dit_strided_block>;
  // One end: the blocks of each part of the exchange, in the tensor or in a buffer.
  struct Side {
    std::vector<std::vector<PeerBlock>> parts;
    std::vector<std::vector<dit_block>> packed;  // in the buffer, part after part
    std::size_t packed_bytes = 0;
    std::vector<Blocks> blocks;  // of the exchange that is under way
    bool uses_buffer = false;

    void add(std::vector<PeerBlock> peers, std::size_t element_bytes);
    /// Into the buffer where the tensor's strides are too many.
    void choose(std::size_t element_bytes, const TensorShape& shape, const TensorStrides& strides);
    /// What the blocks of a part, in the buffer, count from.
    [[nodiscard]] std::span<std::byte> part_of(std::span<std::byte> buffer, std::size_t part) const;
  };
  void reserve(TransferBuffer& buffer, const Side& side) const;
  [[nodiscard]] dit_exchange_call call_of(std::size_t part, const TransferStart& how) const;

  std::size_t element_bytes_;
  Side send_, recv_;
  TransferBuffers buffers_;
  // Of what is under way:
  SourceTensor source_;
  TargetTensor target_;
  void* stream_ = nullptr;
};

}  // namespace dit
