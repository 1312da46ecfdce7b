#include "transfer/plain_transfer.hpp"

#include <utility>

#include "wire/pack.hpp"

namespace dit {
PlainTransfer::Side::Side(const std::vector<PeerBlock>& peers, std::size_t element_bytes)
    : in_place(blocks_in_place(peers, element_bytes)), packed(packed_blocks(peers, element_bytes)) {}

std::size_t PlainTransfer::Side::packed_bytes() const {
  return packed.empty() ? 0 : packed.back().offset + packed.back().bytes;
}

void PlainTransfer::Side::choose(bool dense, TransferBuffer& buffer, const TransferMemory& memory) {
  uses_buffer = !dense || in_place.empty();
  if (uses_buffer && buffer.size() < packed_bytes()) {
    buffer = memory.allocate(packed_bytes());
  }
}

// NCCL's all-to-all, which takes nothing strided either, wants a block of each rank, this one's too.
PlainTransfer::PlainTransfer(ExchangeContext& context, const UlyssesLayout& layout, const TransferPart& part,
                             std::size_t element_bytes, std::uint64_t layout_id, int memory_kind)
    : TensorTransfer(context, layout, part, memory_kind, context.takes_strided(memory_kind)),
      element_bytes_(element_bytes),
      layout_id_(layout_id),
      send_(blocks().send, element_bytes),
      recv_(blocks().recv, element_bytes) {}

std::size_t PlainTransfer::workspace_bytes() const {
  return TransferBuffers::workspace_bytes(send_.packed_bytes(), recv_.packed_bytes());
}

void PlainTransfer::use_workspace(std::span<std::byte> workspace) {
  buffers_.lie_in(workspace, send_.packed_bytes(), recv_.packed_bytes());
}

void PlainTransfer::pack(const SourceTensor& source, const TransferPlace& /*place*/,
                         std::span<const std::uint32_t> /*active*/, void* stream) {
  send_.choose(source.is_dense(), buffers_.send, memory());
  source_ = source;
  if (send_.uses_buffer) {
    memory().pack(blocks().send, element_bytes_, source, buffers_.send, stream);
  } else {
    require_in_tensor(blocks().send, element_bytes_, source.bytes.size());
  }
}

ExchangeRequest PlainTransfer::start(const TargetTensor& target, const TransferStart& how) {
  recv_.choose(target.is_dense(), buffers_.recv, memory());
  if (!recv_.uses_buffer) {
    require_in_tensor(blocks().recv, element_bytes_, target.bytes.size());
  }
  target_ = target;
  copy_own(source_, target, element_bytes_, how);
  stream_ = exchange_stream(how.stream, how.exchange_stream);
  dit_exchange_call call{};
  call.send = send_.uses_buffer ? buffers_.send.data() : source_.bytes.data();
  call.recv = recv_.uses_buffer ? buffers_.recv.data() : target.bytes.data();
  call.send_blocks = send_.blocks().data();
  call.recv_blocks = recv_.blocks().data();
  call.memory_kind = memory_kind();
  call.device = how.device;
  call.stream = stream_;
  call.flags = how.blocking ? DIT_EXCHANGE_BLOCKING : 0U;
  call.label = how.label;
  call.layout_id = layout_id_;
  call.channel = channel();
  // On a device buffers are freed behind what uses them.
  using Kept = std::pair<TransferBuffers, std::shared_ptr<void>>;
  return context().start(call, on_device() ? nullptr : std::make_shared<Kept>(buffers_, how.owner));
}

void PlainTransfer::finish() {
  if (recv_.uses_buffer) {
    finish_on(stream_);
    memory().wait(stream_);
  }
}

void PlainTransfer::finish_on(void* stream) {
  if (recv_.uses_buffer) {
    memory().unpack(blocks().recv, element_bytes_, buffers_.recv, target_, stream);
  }
}

std::uint64_t PlainTransfer::slow_bytes(int /*layer*/) const {
  return slow_bytes_of(send_.packed);
}

TransferBuffers PlainTransfer::release_buffers() {
  return std::exchange(buffers_, {});
}

}  // namespace dit
