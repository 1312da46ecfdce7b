#include "comm/registrations.hpp"

#include <algorithm>

namespace tapa {

bool Registrations::stale(const CudaMemory& memory) const {
  return std::ranges::any_of(entries_, [&](const Entry& entry) {
    if (!entry.memory || entry.memory->buffer == memory.buffer) return false;
    return entry.memory->base < memory.base + memory.bytes &&
           memory.base < entry.memory->base + entry.memory->bytes;
  });
}

bool Registrations::wanted(const CudaMemory& memory, std::size_t longest) {
  constexpr std::size_t most_uses = 2 * kMost;
  if (!memory.on_device || !memory.shareable || longest <= kLongBlock || evictions_ >= kMostEvictions)
    return false;
  const auto same = [&](const Entry& e) { return e.memory && e.memory->buffer == memory.buffer; };
  if (std::ranges::any_of(entries_, same)) return false;
  auto use = std::ranges::find(uses_, memory.buffer, &Use::buffer);
  if (use == uses_.end()) {
    if (uses_.size() == most_uses) uses_.pop_front();
    use = uses_.insert(uses_.end(), {memory.buffer, 0});
  }
  return ++use->calls >= kUses;
}

std::optional<int> Registrations::to_evict() const {
  if (entries_.size() < kMost) return std::nullopt;
  return entries_.front().window;
}

void Registrations::evict() {
  entries_.pop_front();
  ++evictions_;
}

void Registrations::clear() {
  entries_.clear();
}

void Registrations::add(int window, const std::optional<CudaMemory>& memory) {
  if (memory) std::erase_if(uses_, [&](const Use& use) { return use.buffer == memory->buffer; });
  entries_.push_back({window, memory});
}

std::deque<int> Registrations::windows() const {
  std::deque<int> all;
  for (const Entry& entry : entries_) all.push_back(entry.window);
  return all;
}

}  // namespace tapa
