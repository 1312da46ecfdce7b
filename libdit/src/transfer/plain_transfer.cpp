#include "transfer/plain_transfer.hpp"

#include <utility>

#include "wire/pack.hpp"

namespace dit {
namespace {

using Buffers = std::pair<TransferBuffer, TransferBuffer>;

}  // namespace

PlainTransfer::Side::Side(const std::vector<PeerBlock>& peers, std::size_t element_bytes)
    : in_place(blocks_in_place(peers, element_bytes)), packed(packed_blocks(peers, element_bytes)) {}

void PlainTransfer::Side::choose(bool dense, const TransferMemory& memory) {
  uses_buffer = !dense || in_place.empty();
  const std::size_t bytes = packed.empty() ? 0 : packed.back().offset + packed.back().bytes;
  if (uses_buffer && buffer.size() < bytes) {
    buffer = memory.allocate(bytes);
  }
}

PlainTransfer::PlainTransfer(ExchangeContext& context, const UlyssesLayout& layout, const TransferPart& part,
                             std::size_t element_bytes, std::uint64_t layout_id, int memory_kind)
    : TensorTransfer(context, layout, part),
      element_bytes_(element_bytes),
      layout_id_(layout_id),
      memory_kind_(memory_kind),
      memory_(TransferMemory::of(memory_kind)),
      send_(blocks().send, element_bytes),
      recv_(blocks().recv, element_bytes) {
  send_.choose(true, memory_);
  recv_.choose(true, memory_);
}

void PlainTransfer::pack(const SourceTensor& source, const TransferPlace& /*place*/,
                         std::span<const std::uint32_t> /*active*/, void* stream) {
  send_.choose(source.is_dense(), memory_);
  source_ = source;
  if (send_.uses_buffer) {
    memory_.pack(blocks().send, element_bytes_, source, send_.buffer, stream);
  } else {
    require_in_tensor(blocks().send, element_bytes_, source.bytes.size());
  }
}

ExchangeRequest PlainTransfer::start(const TargetTensor& target, const TransferStart& how) {
  recv_.choose(target.is_dense(), memory_);
  if (!recv_.uses_buffer) {
    require_in_tensor(blocks().recv, element_bytes_, target.bytes.size());
  }
  target_ = target;
  stream_ = how.stream;
  dit_exchange_call call{};
  call.send = send_.uses_buffer ? send_.buffer.data() : source_.bytes.data();
  call.recv = recv_.uses_buffer ? recv_.buffer.data() : target.bytes.data();
  call.send_blocks = send_.blocks().data();
  call.recv_blocks = recv_.blocks().data();
  call.memory_kind = memory_kind_;
  call.device = how.device;
  call.stream = how.stream;
  call.flags = how.blocking ? DIT_EXCHANGE_BLOCKING : 0U;
  call.label = how.label;
  call.layout_id = layout_id_;
  call.channel = how.channel;
  return context().start(call, std::make_shared<Buffers>(send_.buffer, recv_.buffer));
}

void PlainTransfer::finish() {
  if (recv_.uses_buffer) {
    memory_.unpack(blocks().recv, element_bytes_, recv_.buffer, target_, stream_);
  }
}

std::uint64_t PlainTransfer::slow_bytes(int /*layer*/) const {
  return slow_bytes_of(send_.packed);
}

std::shared_ptr<void> PlainTransfer::release_buffers() {
  return std::make_shared<Buffers>(std::exchange(send_.buffer, {}), std::exchange(recv_.buffer, {}));
}

}  // namespace dit
