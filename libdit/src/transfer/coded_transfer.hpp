/// A tensor under a wire policy: coded out of the source, decoded into the target. Buffers and what is
/// remembered are allocated once. Host memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "transfer/tensor_transfer.hpp"
#include "transfer/transfer_memory.hpp"
#include "transfer/wire_run.hpp"

namespace dit {

class CodedTransfer final : public TensorTransfer {
 public:
  /// `branches`: 1 when all exchanges are of one guidance branch, else each remembers by itself. `run` and
  /// the context must outlive this.
  CodedTransfer(ExchangeContext& context, const WireRun& run, const TransferPart& part, int branches = 1);

  /// With a guard collective, on the part's channel: what one rank leaves too much of behind all ranks send
  /// in more bits. A layer of a branch that comes for the first time travels as in step 0.
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
  [[nodiscard]] std::shared_ptr<void> release_buffers() override;

  [[nodiscard]] TransferTimes take_times() override;
  void count_ages(std::vector<std::uint64_t>& rows_by_age) const override;

 private:
  // What a layer of a branch keeps from step to step.
  struct Layer {
    std::unique_ptr<ExchangeMemory> memory;  // null: nothing is remembered
    bool seen = false;                       // it has travelled
    TransferBuffers late_buffers;
    const ResolvedWire* late = nullptr;  // under way or, with no request, complete; null: nothing is late
    CodedBlocks::Sizes late_sizes;
    ExchangeRequest late_request;  // last: its end waits, and what is above must still be there
  };
  [[nodiscard]] dit_exchange_call call_of(WirePart part, const CodedBlocks::Sizes& sizes,
                                          const TransferStart& how) const;
  [[nodiscard]] std::pair<std::size_t, std::size_t> most_bytes() const;
  [[nodiscard]] Layer& layer_of(const TransferPlace& place);
  void finish_late();
  /// Relative L2 of what is left behind.
  [[nodiscard]] double encode(const SourceTensor& source, std::span<const std::uint32_t> active,
                              bool watched);
  void encode_late(const SourceTensor& source, CodedBlocks::Loss* loss);
  [[nodiscard]] bool is_any_beyond(double left_behind);

  const WireRun& run_;
  TransferPart part_;
  int branches_;
  CodedBlocks coded_;
  const TransferMemory& memory_;
  std::vector<Layer> layers_;  // branch after branch
  TransferBuffers buffers_;
  // Of what is under way:
  Layer* layer_ = nullptr;
  const ResolvedWire* resolved_ = nullptr;
  CodedBlocks::Sizes sizes_;
  TargetTensor target_;

  TransferTimes times_;
  ExchangeMemory::Sent kept_;  // while the guard looks
};

}  // namespace dit
