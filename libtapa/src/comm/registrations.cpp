#include "comm/registrations.hpp"

#include <algorithm>

namespace tapa {

namespace {

constexpr std::size_t kMostUses = 2 * Registrations::kMost;

}  // namespace

Registrations::Registrations() {
  entries_.reserve(kMost);
  uses_.reserve(kMostUses);
}

bool Registrations::stale(const CudaMemory& memory) const {
  return std::ranges::any_of(entries_, [&](const Entry& entry) {
    if (!entry.memory || entry.memory->buffer == memory.buffer) return false;
    return entry.memory->base < memory.base + memory.bytes &&
           memory.base < entry.memory->base + entry.memory->bytes;
  });
}

bool Registrations::wanted(const CudaMemory& memory, std::size_t longest) {
  if (!memory.on_device || !memory.shareable || longest <= kLongBlock || evictions_ >= kMostEvictions)
    return false;
  const auto same = [&](const Entry& e) { return e.memory && e.memory->buffer == memory.buffer; };
  if (std::ranges::any_of(entries_, same)) return false;
  auto use = std::ranges::find(uses_, memory.buffer, &Use::buffer);
  if (use == uses_.end()) {
    if (uses_.size() == kMostUses) uses_.erase(uses_.begin());
    use = uses_.insert(uses_.end(), {memory.buffer, 0});
  }
  return ++use->calls >= kUses;
}

std::optional<int> Registrations::to_evict() const {
  return entries_.size() < kMost ? std::nullopt : oldest();
}

void Registrations::evict() {
  drop();
  ++evictions_;
}

void Registrations::drop() {
  entries_.erase(entries_.begin());
}

std::optional<int> Registrations::oldest() const {
  if (entries_.empty()) return std::nullopt;
  return entries_.front().window;
}

void Registrations::add(int window, const std::optional<CudaMemory>& memory) {
  if (memory) std::erase_if(uses_, [&](const Use& use) { return use.buffer == memory->buffer; });
  entries_.push_back({window, memory});
}

}  // namespace tapa
