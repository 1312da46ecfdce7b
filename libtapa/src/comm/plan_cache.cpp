#include "comm/plan_cache.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace tapa {

// FNV-1a, over words instead of bytes.
std::size_t PlanCache::hash_of(std::string_view text, std::span<const std::size_t> numbers) {
  std::size_t hash = std::hash<std::string_view>{}(text);
  for (const std::size_t n : numbers) hash = (hash ^ n) * 0x100000001b3ULL;
  return hash;
}

std::shared_ptr<PlanEntry> PlanCache::find(std::string_view text, std::span<const std::size_t> numbers) {
  const auto [begin, end] = places_.equal_range(hash_of(text, numbers));
  for (auto it = begin; it != end; ++it) {
    const Place place = it->second;
    if (place->text != text || !std::ranges::equal(place->numbers, numbers)) continue;
    nodes_.splice(nodes_.begin(), nodes_, place);
    return place->entry;
  }
  return nullptr;
}

void PlanCache::insert(std::string_view text, std::span<const std::size_t> numbers,
                       std::shared_ptr<PlanEntry> entry) {
  const std::size_t hash = hash_of(text, numbers);
  nodes_.push_front({hash, std::string(text), {numbers.begin(), numbers.end()}, std::move(entry)});
  places_.emplace(hash, nodes_.begin());
  if (nodes_.size() <= capacity_) return;
  const Place last = std::prev(nodes_.end());
  const auto [begin, end] = places_.equal_range(last->hash);
  places_.erase(
      std::find_if(begin, end, [&](const auto& entry_place) { return entry_place.second == last; }));
  nodes_.pop_back();
}

void PlanCache::clear() {
  places_.clear();
  nodes_.clear();
}

}  // namespace tapa
