#include "transfer/strided_transfer.hpp"

#include <utility>

#include "wire/pack.hpp"

namespace dit {
namespace {

template <typename Byte>
TensorShape shape_of(const StridedTensor<Byte>& tensor, const TensorShape& expected) {
  return tensor.shape.elements() > 0 ? tensor.shape : expected;
}
template <typename Byte>
TensorStrides strides_of(const StridedTensor<Byte>& tensor, const TensorShape& expected) {
  return tensor.shape.elements() > 0 ? tensor.strides : dense_strides(expected);
}

}  // namespace

void StridedTransfer::Side::add(std::vector<PeerBlock> peers, std::size_t element_bytes) {
  std::vector<dit_block> blocks = dit::packed_blocks(peers, element_bytes);
  const std::size_t bytes = dit::packed_bytes(peers, element_bytes);
  for (dit_block& block : blocks) block.offset += packed_bytes;
  packed_bytes += bytes;
  packed.push_back(std::move(blocks));
  parts.push_back(std::move(peers));
}

void StridedTransfer::Side::choose(std::size_t element_bytes, const TensorShape& shape,
                                   const TensorStrides& strides) {
  blocks.clear();
  uses_buffer = false;
  for (const std::vector<PeerBlock>& peers : parts) {
    auto in_tensor = strided_blocks(peers, element_bytes, shape, strides);
    if (!in_tensor) {
      uses_buffer = true;
      break;
    }
    blocks.push_back(std::move(*in_tensor));
  }
  if (!uses_buffer) return;
  blocks.clear();
  for (const std::vector<dit_block>& part : packed) blocks.push_back(strided_blocks(part));
}

std::span<std::byte> StridedTransfer::Side::part_of(std::span<std::byte> buffer, std::size_t part) const {
  return buffer.subspan(packed[part].empty() ? 0 : packed[part].front().offset);
}

StridedTransfer::StridedTransfer(ExchangeContext& context, const UlyssesLayout& layout,
                                 const TransferPart& part, std::size_t element_bytes, int memory_kind)
    : TensorTransfer(context, layout, part, memory_kind, false), element_bytes_(element_bytes) {
  for (ExchangeLayout& exchange :
       strided_parts(layout, part.tensor, context.rank(), part.group, part.groups)) {
    send_.add(std::move(exchange.send), element_bytes);
    recv_.add(std::move(exchange.recv), element_bytes);
  }
}

void StridedTransfer::reserve(TransferBuffer& buffer, const Side& side) const {
  if (side.uses_buffer && buffer.size() < side.packed_bytes) buffer = memory().allocate(side.packed_bytes);
}

void StridedTransfer::pack(const SourceTensor& source, const TransferPlace& /*place*/,
                           std::span<const std::uint32_t> /*active*/, void* stream) {
  source_ = source;
  send_.choose(element_bytes_, shape_of(source, source_shape()), strides_of(source, source_shape()));
  if (!send_.uses_buffer) return;
  reserve(buffers_.send, send_);
  for (std::size_t part = 0; part < send_.parts.size(); ++part) {
    const std::span<std::byte> room = send_.part_of(buffers_.send.span(), part);
    memory().pack(send_.parts[part], element_bytes_, source, TransferBuffer::borrowed(room), stream);
  }
}

dit_exchange_call StridedTransfer::call_of(std::size_t part, const TransferStart& how) const {
  dit_exchange_call call{};
  call.send = send_.uses_buffer ? buffers_.send.data() : source_.bytes.data();
  call.recv = recv_.uses_buffer ? buffers_.recv.data() : target_.bytes.data();
  call.send_strided = send_.blocks[part].data();
  call.recv_strided = recv_.blocks[part].data();
  call.memory_kind = memory_kind();
  call.device = how.device;
  call.stream = stream_;
  call.label = how.label;
  call.channel = channel();
  return call;
}

// The parts follow each other in the stream: who waits for the last one waits for all.
ExchangeRequest StridedTransfer::start(const TargetTensor& target, const TransferStart& how) {
  target_ = target;
  stream_ = exchange_stream(how.stream, how.exchange_stream);
  recv_.choose(element_bytes_, shape_of(target, target_shape()), strides_of(target, target_shape()));
  reserve(buffers_.recv, recv_);
  ExchangeRequest last;
  for (std::size_t part = 0; part < send_.parts.size(); ++part) {
    last.cancel();
    dit_exchange_call call = call_of(part, how);
    if (how.blocking && part + 1 == send_.parts.size()) call.flags = DIT_EXCHANGE_BLOCKING;
    last = context().start(call);
  }
  return last;
}

void StridedTransfer::finish() {
  if (!recv_.uses_buffer) return;
  finish_on(stream_);
  memory().wait(stream_);
}

void StridedTransfer::finish_on(void* stream) {
  if (!recv_.uses_buffer) return;
  for (std::size_t part = 0; part < recv_.parts.size(); ++part) {
    const std::span<std::byte> room = recv_.part_of(buffers_.recv.span(), part);
    memory().unpack(recv_.parts[part], element_bytes_, TransferBuffer::borrowed(room), target_, stream);
  }
}

std::uint64_t StridedTransfer::slow_bytes(int /*layer*/) const {
  std::uint64_t bytes = 0;
  for (const std::vector<dit_block>& part : send_.packed) bytes += slow_bytes_of(part);
  return bytes;
}

std::size_t StridedTransfer::workspace_bytes() const {
  return TransferBuffers::workspace_bytes(send_.packed_bytes, recv_.packed_bytes);
}

void StridedTransfer::use_workspace(std::span<std::byte> workspace) {
  buffers_.lie_in(workspace, send_.packed_bytes, recv_.packed_bytes);
}

TransferBuffers StridedTransfer::release_buffers() {
  return std::exchange(buffers_, {});
}

}  // namespace dit
