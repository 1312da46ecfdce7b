#include "transfer/tensor_transfer.hpp"

#include <utility>

#include "wire/pack.hpp"

namespace dit {

TensorTransfer::TensorTransfer(ExchangeContext& context, const UlyssesLayout& layout,
                               const TransferPart& part, int memory_kind, bool copies_own)
    : context_(context),
      channel_(part.channel),
      memory_kind_(memory_kind),
      memory_(TransferMemory::of(memory_kind)),
      blocks_(layout.exchange(part.tensor, context.rank(), part.group, part.groups)),
      source_shape_(layout.sequence_shape(part.tensor, context.rank())),
      target_shape_(layout.head_shape(part.tensor, context.rank(), part.group, part.groups)) {
  if (part.tensor == AttentionTensor::output) {
    std::swap(source_shape_, target_shape_);
  }
  if (copies_own && on_device()) {
    const auto own = static_cast<std::size_t>(context.rank());
    own_sent_ = std::exchange(blocks_.send[own], {});
    own_received_ = std::exchange(blocks_.recv[own], {});
  }
}

void* TensorTransfer::exchange_stream(void* stream, void* own) {
  if (own == nullptr) {
    return stream;
  }
  if (mark_ == nullptr) {
    mark_ = memory_.make_mark();
  }
  memory_.follow(own, stream, mark_.get());
  return own;
}

void TensorTransfer::copy_own(const SourceTensor& source, const TargetTensor& target,
                              std::size_t element_bytes, const TransferStart& how) const {
  if (how.has_own || !copies_own()) {
    return;
  }
  auto* const begin = const_cast<std::byte*>(source.bytes.data());  // is only read
  memory_.unpack_rows(row_copies(own_sent_, source, own_received_, target, element_bytes),
                      TransferBuffer::borrowed({begin, source.bytes.size()}), target, how.stream);
}

std::uint64_t TensorTransfer::slow_bytes_of(std::span<const dit_block> send) const {
  std::uint64_t bytes = 0;
  for (int peer = 0; peer < context_.size(); ++peer) {
    if (peer != context_.rank() && context_.level_of(peer) >= context_.slow_level()) {
      bytes += send[static_cast<std::size_t>(peer)].bytes;
    }
  }
  return bytes;
}

}  // namespace dit
