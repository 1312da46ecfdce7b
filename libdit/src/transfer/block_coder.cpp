#include "transfer/block_coder.hpp"

#include <string>
#include <utility>

#include "exchange/exchange.hpp"
#include "transfer/device/device_coder.hpp"

namespace dit {
namespace {

class HostMemoryOfBlocks final : public BlockCoder::Memory {
 public:
  HostMemoryOfBlocks(const ExchangeLayout& layout, const PeerFlags& remembered, const MemoryOptions& options)
      : memory(layout, remembered, options) {}
  void count_ages(std::vector<std::uint64_t>& rows_by_age) const override {
    for (const std::uint16_t age : memory.ages()) {
      if (rows_by_age.size() <= age) {
        rows_by_age.resize(age + std::size_t{1});
      }
      ++rows_by_age[age];
    }
  }
  void forget(void* /*stream*/) override { memory.forget(); }

  ExchangeMemory memory;
};

ExchangeMemory* memory_of(BlockCoder::Memory* memory) {
  return memory != nullptr ? &static_cast<HostMemoryOfBlocks*>(memory)->memory : nullptr;
}

class HostCoder final : public BlockCoder {
 public:
  HostCoder(ExchangeLayout layout, WireElement element, SampleRows rows)
      : coded_(std::move(layout), element, std::move(rows)) {}

  [[nodiscard]] std::unique_ptr<Memory> make_memory(const PeerFlags& remembered,
                                                    const MemoryOptions& options) const override {
    return std::make_unique<HostMemoryOfBlocks>(coded_.layout(), remembered, options);
  }
  [[nodiscard]] CodedBlocks::Sizes sizes(std::span<const WireMode> modes, WirePart part) const override {
    return coded_.sizes(modes, part);
  }
  void encode(std::span<const WireMode> modes, WirePart part, const SourceTensor& tensor, Memory* memory,
              const TransferBuffer& buffer, bool watched, std::span<const std::uint32_t> active,
              void* /*stream*/) override {
    coded_.encode(modes, part, tensor, memory_of(memory), buffer.span(), watched ? &loss_ : nullptr, active);
  }
  void decode(std::span<const WireMode> modes, const TransferBuffer& buffer, Memory* memory,
              const TargetTensor& tensor, void* /*stream*/) override {
    coded_.decode(modes, buffer.span(), memory_of(memory), tensor);
  }
  void remember(std::span<const WireMode> modes, const TransferBuffer& buffer, Memory* memory,
                void* /*stream*/) override {
    coded_.remember(modes, buffer.span(), memory_of(memory));
  }

  [[nodiscard]] bool can_watch(void* /*stream*/) const override { return true; }
  [[nodiscard]] BlockLoss take_loss(void* /*stream*/) override { return std::exchange(loss_, {}); }
  void keep_sent(const Memory& memory, void* /*stream*/) override {
    static_cast<const HostMemoryOfBlocks&>(memory).memory.keep_sent(kept_);
  }
  void put_back_sent(Memory& memory, void* /*stream*/) override {
    static_cast<HostMemoryOfBlocks&>(memory).memory.put_back_sent(kept_);
  }

 private:
  CodedBlocks coded_;
  BlockLoss loss_;
  ExchangeMemory::Sent kept_;
};

}  // namespace

CodeLauncher& code_launcher(int memory_kind) {
#ifdef DIT_HAVE_CUDA
  if (memory_kind == DIT_MEMORY_CUDA) {
    return cuda_code_launcher();
  }
#endif
  throw ExchangeError(DIT_ERROR_UNSUPPORTED, "memory_kind = " + std::to_string(memory_kind) +
                                                 ": expected a device's that this build has");
}

std::unique_ptr<BlockCoder> BlockCoder::make(int memory_kind, ExchangeLayout layout, WireElement element,
                                             SampleRows rows) {
  const TransferMemory& memory = TransferMemory::of(memory_kind);  // throws for kinds that are not there
  if (memory_kind == DIT_MEMORY_HOST) {
    return std::make_unique<HostCoder>(std::move(layout), element, std::move(rows));
  }
  return std::make_unique<DeviceCoder>(std::move(layout), element, std::move(rows), memory,
                                       code_launcher(memory_kind));
}

}  // namespace dit
