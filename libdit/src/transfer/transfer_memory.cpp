#include "transfer/transfer_memory.hpp"

#include <string>

#include "exchange/exchange.hpp"
#include "wire/pack.hpp"

namespace dit {
namespace {

class HostMemory final : public TransferMemory {
 public:
  [[nodiscard]] TransferBuffer allocate(std::size_t bytes) const override {
    return {std::make_shared<std::byte[]>(bytes), bytes};
  }
  void pack(std::span<const PeerBlock> peers, std::size_t element_bytes, const SourceTensor& tensor,
            const TransferBuffer& buffer, void* /*stream*/) const override {
    dit::pack(peers, element_bytes, tensor, buffer.span());
  }
  void unpack(std::span<const PeerBlock> peers, std::size_t element_bytes, const TransferBuffer& buffer,
              const TargetTensor& tensor, void* /*stream*/) const override {
    dit::unpack(peers, element_bytes, buffer.span(), tensor);
  }
};

}  // namespace

const TransferMemory& TransferMemory::of(int memory_kind) {
  static const HostMemory host;
  if (memory_kind != DIT_MEMORY_HOST) {
    throw ExchangeError(DIT_ERROR_UNSUPPORTED, "memory_kind = " + std::to_string(memory_kind) +
                                                   ": expected 0 (DIT_MEMORY_HOST) in this build");
  }
  return host;
}

}  // namespace dit
