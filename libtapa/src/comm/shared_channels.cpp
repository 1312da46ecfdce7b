#include "comm/shared_channels.hpp"

#include <bit>

namespace tapa {

static_assert(ShmNode::kChannels < 64);

std::uint64_t SharedChannels::free() const {
  return node_ == nullptr ? 0 : ~used_ & ((std::uint64_t{1} << ShmNode::kChannels) - 1);
}

std::size_t SharedChannels::take(std::uint64_t free) {
  const auto channel = static_cast<std::size_t>(std::countr_zero(free));
  used_ |= std::uint64_t{1} << channel;
  return channel;
}

}  // namespace tapa
