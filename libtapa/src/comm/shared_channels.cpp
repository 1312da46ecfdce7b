#include "comm/shared_channels.hpp"

#include <bit>

namespace tapa {

static_assert(ShmNode::kChannels < 64);

std::uint64_t SharedChannels::free() {
  constexpr int ahead = 2;  // another rank may still use the first that is free here
  if (node_ == nullptr) return 0;
  std::uint64_t free = 0;
  int prepared = 0;
  for (std::size_t channel = 1; channel < ShmNode::kChannels; ++channel) {
    const std::uint64_t bit = std::uint64_t{1} << channel;
    if ((used_ & bit) != 0) continue;
    const bool usable =
        node_->buffers(channel) != nullptr || (prepared < ahead && node_->prepare_channel(channel));
    if (!usable) break;
    ++prepared;
    free |= bit;
  }
  return free;
}

std::size_t SharedChannels::take(std::uint64_t free) {
  const auto channel = static_cast<std::size_t>(std::countr_zero(free));
  used_ |= std::uint64_t{1} << channel;
  return channel;
}

}  // namespace tapa
