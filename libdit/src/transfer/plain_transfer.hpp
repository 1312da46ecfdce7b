/// A tensor that travels as it is. Where each block of a dense tensor is one piece it is sent from, or
/// received into, the tensor itself; else through a buffer that is allocated at first need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "transfer/tensor_transfer.hpp"
#include "transfer/transfer_memory.hpp"

namespace dit {

class PlainTransfer final : public TensorTransfer {
 public:
  /// `layout_id`: as in dit_exchange_call. `memory_kind`: of both tensors. The context must outlive this.
  PlainTransfer(ExchangeContext& context, const UlyssesLayout& layout, const TransferPart& part,
                std::size_t element_bytes, std::uint64_t layout_id, int memory_kind = DIT_MEMORY_HOST);

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
  // One end's blocks.
  struct Side {
    Side(const std::vector<PeerBlock>& peers, std::size_t element_bytes);
    std::vector<dit_block> in_place;  // in a dense tensor; empty: they are in pieces
    std::vector<dit_block> packed;    // in a buffer
    bool uses_buffer = false;         // in the exchange that is under way
    [[nodiscard]] std::size_t packed_bytes() const;
    [[nodiscard]] const std::vector<dit_block>& blocks() const { return uses_buffer ? packed : in_place; }
    void choose(bool dense, TransferBuffer& buffer, const TransferMemory& memory);
  };

  std::size_t element_bytes_;
  std::uint64_t layout_id_;
  Side send_, recv_;
  TransferBuffers buffers_;
  // Of what is under way:
  SourceTensor source_;
  TargetTensor target_;
  void* stream_ = nullptr;
};

}  // namespace dit
