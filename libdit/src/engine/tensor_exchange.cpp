#include "engine/tensor_exchange.hpp"

#include <utility>

#include "engine/bytes.hpp"
#include "wire/pack.hpp"

namespace dit {
namespace {

/// Blocks as they lie in the tensor, or one after the other; true for the first.
bool place_blocks(std::span<const PeerBlock> peers, std::size_t element_bytes,
                  std::vector<dit_block>& blocks) {
  blocks = blocks_in_place(peers, element_bytes);
  if (!blocks.empty()) {
    return true;
  }
  blocks = packed_blocks(peers, element_bytes);
  return false;
}

at::Tensor byte_buffer(std::size_t bytes) {
  return at::zeros({static_cast<std::int64_t>(bytes)}, at::kByte);
}

}  // namespace

TensorExchange::TensorExchange(ExchangeLayout layout, at::ScalarType dtype, std::uint64_t layout_id)
    : layout_(std::move(layout)), element_bytes_(c10::elementSize(dtype)), layout_id_(layout_id) {
  sends_in_place_ = place_blocks(layout_.send, element_bytes_, send_blocks_);
  receives_in_place_ = place_blocks(layout_.recv, element_bytes_, recv_blocks_);
  if (!sends_in_place_) {
    packed_ = byte_buffer(packed_bytes(layout_.send, element_bytes_));
  }
}

Received TensorExchange::make_received(const at::Tensor& tensor) const {
  return {receives_in_place_ ? tensor : byte_buffer(packed_bytes(layout_.recv, element_bytes_)), tensor};
}

void TensorExchange::pack(const at::Tensor& source) {
  source_ = source.contiguous();
  if (!sends_in_place_) {
    dit::pack(layout_.send, element_bytes_, bytes_of(source_), writable_bytes_of(packed_));
  }
}

ExchangeRequest TensorExchange::start(ExchangeContext& context, const Received& into, How how) const {
  dit_exchange_call call{};
  call.send = sends_in_place_ ? source_.data_ptr() : packed_.data_ptr();
  call.recv = into.buffer.data_ptr();
  call.send_blocks = send_blocks_.data();
  call.recv_blocks = recv_blocks_.data();
  call.memory_kind = DIT_MEMORY_HOST;
  call.flags = how.blocking ? DIT_EXCHANGE_BLOCKING : 0U;
  call.label = how.label;
  call.layout_id = layout_id_;
  return context.start(call);
}

void TensorExchange::finish(const Received& into) {
  source_ = at::Tensor();
  if (!receives_in_place_) {
    unpack(layout_.recv, element_bytes_, bytes_of(into.buffer), writable_bytes_of(into.tensor));
  }
}

std::uint64_t TensorExchange::slow_bytes(const ExchangeContext& context) const {
  std::uint64_t bytes = 0;
  for (int peer = 0; peer < context.size(); ++peer) {
    if (peer != context.rank() && context.level_of(peer) >= context.slow_level()) {
      bytes += send_blocks_[static_cast<std::size_t>(peer)].bytes;
    }
  }
  return bytes;
}

}  // namespace dit
