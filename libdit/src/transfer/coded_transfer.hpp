/// A tensor under a wire policy: coded out of the source, decoded into the target. Buffers and what is
/// remembered are allocated once. On a device all of it goes on the caller's streams, and nothing waits for
/// it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "transfer/block_coder.hpp"
#include "transfer/tensor_transfer.hpp"
#include "transfer/transfer_memory.hpp"
#include "transfer/wire_run.hpp"

namespace dit {

class CodedTransfer final : public TensorTransfer {
 public:
  /// `branches`: 1 when all exchanges are of one guidance branch, else each remembers by itself. `run` and
  /// the context must outlive this. `memory_kind`: of tensors, buffers and what is remembered; the current
  /// device's. `coder`: null for the one of that memory.
  CodedTransfer(ExchangeContext& context, const WireRun& run, const TransferPart& part, int branches = 1,
                int memory_kind = DIT_MEMORY_HOST, std::unique_ptr<BlockCoder> coder = nullptr);

  void require_startable(const TransferPlace& place, void* stream) const override;
  /// With a guard collective, on the part's channel: what one rank leaves too much of behind all ranks send
  /// in more bits. On a device the host then waits for what is in the stream. A layer of a branch that comes
  /// for the first time travels as in step 0.
  void pack(const SourceTensor& source, const TransferPlace& place, std::span<const std::uint32_t> active,
            void* stream) override;
  /// The exchange whose blocks this step uses; that of late blocks goes on beside it until the layer's next
  /// pack().
  [[nodiscard]] ExchangeRequest start(const TargetTensor& target, const TransferStart& how) override;
  void finish() override;
  void finish_on(void* stream) override;
  [[nodiscard]] std::uint64_t slow_bytes(int layer) const override;
  [[nodiscard]] std::size_t workspace_bytes() const override;
  void use_workspace(std::span<std::byte> workspace) override;
  void wait_for_late() override;
  void forget(void* stream) override;
  void have_travelled(int branch) override;
  [[nodiscard]] TransferBuffers release_buffers() override;

  [[nodiscard]] TransferTimes take_times() override;
  void count_ages(std::vector<std::uint64_t>& rows_by_age) const override;

 private:
  // What a layer of a branch keeps from step to step.
  struct Layer {
    std::unique_ptr<BlockCoder::Memory> memory;  // null: nothing is remembered
    bool seen = false;                           // it has travelled
    TransferBuffers late_buffers;
    const ResolvedWire* late = nullptr;  // under way or, with no request, complete; null: nothing is late
    CodedBlocks::Sizes late_sizes;
    ExchangeRequest late_request;  // last: its end waits, and what is above must still be there
  };
  [[nodiscard]] ExchangeLayout coded_blocks() const;
  [[nodiscard]] CodedBlocks::Sizes sizes_of(const ResolvedWire& resolved, WirePart part) const;
  [[nodiscard]] dit_exchange_call call_of(WirePart part, const CodedBlocks::Sizes& sizes,
                                          const TransferStart& how) const;
  [[nodiscard]] std::pair<std::size_t, std::size_t> most_bytes() const;
  [[nodiscard]] std::size_t index_of(const TransferPlace& place) const;
  [[nodiscard]] const ResolvedWire& resolve(const TransferPlace& place, bool seen) const;
  void finish_late(void* stream);
  void wait_for_late(Layer& layer, void* stream);
  void encode(const SourceTensor& source, std::span<const std::uint32_t> active, bool watched, void* stream);
  void encode_late(const SourceTensor& source, bool watched, void* stream);
  /// Kept until the exchange is done; on a device buffers are freed behind what uses them.
  [[nodiscard]] std::shared_ptr<void> kept(const TransferBuffers& buffers) const;
  [[nodiscard]] bool is_any_beyond(void* stream);

  const WireRun& run_;
  TransferPart part_;
  int branches_;
  std::unique_ptr<BlockCoder> coder_;
  std::pair<std::size_t, std::size_t> most_;  // bytes that an exchange sends and receives, in whatever mode
  std::vector<Layer> layers_;                 // branch after branch
  TransferBuffers buffers_;
  // Of what is under way:
  Layer* layer_ = nullptr;
  const ResolvedWire* resolved_ = nullptr;
  CodedBlocks::Sizes sizes_;
  SourceTensor source_;
  TargetTensor target_;
  void* stream_ = nullptr;

  TransferTimes times_;
};

}  // namespace dit
