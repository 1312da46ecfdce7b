#include "comm/call_order.hpp"

#include <algorithm>
#include <bit>

namespace tapa {

namespace {

constexpr int kLeastWindows = 64;
constexpr int kManyWindows = 1024;

/// Of a window.
int tags_of(int tags, int wanted) {
  const int most = (tags - CallOrder::kSetAside) / kLeastWindows;
  return std::min(most, std::max(wanted, tags / kManyWindows));
}

}  // namespace

CallOrder::CallOrder(int first, int tags, int wanted)
    : first_(first),
      count_(tags_of(tags, wanted)),
      half_(static_cast<std::size_t>((tags - kSetAside) / count_ / 2)),
      used_(2 * half_) {}

std::optional<TagWindow> CallOrder::take_window() {
  const std::size_t index = next_ % half_;
  if (used_[index]) return std::nullopt;
  used_[index] = true;
  ++next_;
  return window(index);
}

void CallOrder::give_back(TagWindow window) {
  if (window.count == 0) return;
  used_[static_cast<std::size_t>((window.first - first_ - kSetAside) / window.count)] = false;
}

std::uint64_t CallOrder::free_windows(std::size_t block) const {
  std::uint64_t free = 0;
  for (std::size_t i = 0; i < kBlock && block * kBlock + i < half_; ++i) {
    if (!used_[half_ + block * kBlock + i]) free |= std::uint64_t{1} << i;
  }
  return free;
}

TagWindow CallOrder::take_persistent(std::size_t block, std::uint64_t free) {
  block_ = block;
  const std::size_t index = half_ + block * kBlock + static_cast<std::size_t>(std::countr_zero(free));
  used_[index] = true;
  return window(index);
}

}  // namespace tapa
