#include "transfer/tensor_transfer.hpp"

namespace dit {

TensorTransfer::TensorTransfer(ExchangeContext& context, const UlyssesLayout& layout,
                               const TransferPart& part)
    : context_(context),
      channel_(part.channel),
      blocks_(layout.exchange(part.tensor, context.rank(), part.group, part.groups)),
      source_shape_(layout.sequence_shape(part.tensor, context.rank())),
      target_shape_(layout.head_shape(part.tensor, context.rank(), part.group, part.groups)) {
  if (part.tensor == AttentionTensor::output) {
    std::swap(source_shape_, target_shape_);
  }
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
