#include "transfer/push_map.hpp"

#include <stdexcept>

#include "transfer/strided_blocks.hpp"

namespace dit {

std::vector<PushPart> push_parts(const UlyssesLayout& layout, AttentionTensor tensor, int rank, int group,
                                 int groups) {
  const TensorShape source = layout.sequence_shape(tensor, rank);
  const std::vector<ExchangeLayout> sent = strided_parts(layout, tensor, rank, group, groups);
  std::vector<PushPart> parts;
  for (int peer = 0; peer < layout.ranks(); ++peer) {
    const TensorShape target = layout.head_shape(tensor, peer, group, groups);
    const std::vector<ExchangeLayout> received = strided_parts(layout, tensor, peer, group, groups);
    for (std::size_t part = 0; part < sent.size(); ++part) {
      const auto from = box_of(sent[part].send[static_cast<std::size_t>(peer)], source);
      const auto to = box_of(received[part].recv[static_cast<std::size_t>(rank)], target);
      if (!from || !to || from->rows != to->rows || from->samples != to->samples || from->sample != 0)
        throw std::logic_error("a scattered block is not the same box on both sides");
      if (from->samples == 0) continue;
      parts.push_back(
          {peer, {from->row, from->row + from->rows}, {from->head, from->head + from->heads}, to->row});
    }
  }
  return parts;
}

}  // namespace dit
