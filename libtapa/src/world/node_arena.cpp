#include "world/node_arena.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "transport/memory_file.hpp"
#include "transport/shm_buffers.hpp"
#include "transport/shm_ring.hpp"

namespace tapa {

namespace {

constexpr std::size_t kEntryBytes = 16;

// Pages of units behind those of so many regions of all ranks are given back when they are free: a program
// that once had many communicators does not keep their memory.
constexpr std::size_t kKeptRegions = 8;

}  // namespace

std::size_t ArenaLayout::ring_capacity() const {
  constexpr std::size_t most = ShmRing::kMaxCapacity;
  return ranks <= 16 ? most : ranks <= 32 ? most / 2 : most / 4;
}

std::size_t ArenaLayout::ring_bytes() const {
  return whole_units(ShmRing::bytes_for(ring_capacity()), kLine);
}

std::size_t ArenaLayout::rings_at() const {
  return whole_units(entries_at() + units * kEntryBytes, page);
}

std::size_t ArenaLayout::unit_bytes() const {
  return whole_units(ShmBuffers::region_bytes(), page);
}

std::size_t ArenaLayout::unit_at(std::size_t unit) const {
  return whole_units(rings_at() + ranks * ranks * ring_bytes(), page) + unit * unit_bytes();
}

std::optional<ArenaLayout> arena_layout(std::size_t ranks, std::size_t most_bytes, std::size_t page) {
  for (std::size_t regions = kMostRegions; regions > 0; regions /= 2) {
    const ArenaLayout layout{ranks, ranks > 1 ? regions * ranks : 0, page};
    if (layout.file_bytes() <= most_bytes) return layout;
  }
  return std::nullopt;
}

std::optional<unsigned> Contexts::take(unsigned most) {
  const unsigned begin = next_.load(std::memory_order_relaxed);
  for (unsigned tried = 0; tried < most; ++tried) {
    const unsigned context = (begin + tried) % most;
    const std::uint64_t bit = std::uint64_t{1} << context % 64;
    if ((words_[context / 64].fetch_or(bit, std::memory_order_acquire) & bit) != 0) continue;
    next_.store(context + 1, std::memory_order_relaxed);
    return context;
  }
  return std::nullopt;
}

void Contexts::give(unsigned context) {
  words_[context / 64].fetch_and(~(std::uint64_t{1} << context % 64), std::memory_order_release);
}

std::shared_ptr<NodeArena> NodeArena::map(int fd, const ArenaLayout& layout, std::string& why) {
  static_assert(sizeof(Entry) == kEntryBytes && sizeof(Doorbell) <= ArenaLayout::kLine &&
                sizeof(Place) <= ArenaLayout::kLine);
  // Each rank sees to it: what it tells comes before the others have come here.
  if (!set_file_bytes(fd, layout.file_bytes(), why)) return nullptr;
  MapShare share;
  if (!share.grow(1, layout.file_bytes(), why)) return nullptr;
  Mapping mapping(fd, 0, layout.file_bytes());
  if (!mapping.ok()) {
    why = "cannot map " + std::to_string(layout.file_bytes()) + " bytes";
    return nullptr;
  }
  return std::shared_ptr<NodeArena>(new NodeArena(std::move(mapping), std::move(share), layout));
}

NodeArena::NodeArena(Mapping mapping, MapShare share, const ArenaLayout& layout)
    : layout_(layout),
      share_(std::move(share)),
      mapping_(std::move(mapping)),
      contexts_(reinterpret_cast<std::atomic<std::uint64_t>*>(at(layout.contexts_at()))) {}

Doorbell* NodeArena::bell(std::size_t rank) const {
  return reinterpret_cast<Doorbell*>(at(layout_.bell_at(rank)));
}

NodeArena::Place& NodeArena::place(std::size_t rank) const {
  return *reinterpret_cast<Place*>(at(layout_.rank_at(rank)));
}

NodeArena::Entry& NodeArena::entry(std::size_t unit) const {
  return reinterpret_cast<Entry*>(at(layout_.entries_at()))[unit];
}

/// All of them, or none.
bool NodeArena::take_units(std::size_t first, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t free = 0;
    if (entry(first + i).taken.compare_exchange_strong(free, 1, std::memory_order_acquire)) continue;
    while (i-- > 0) entry(first + i).taken.store(0, std::memory_order_release);
    return false;
  }
  return true;
}

// The lowest: those that were used before have their pages already.
std::optional<ArenaRegion> NodeArena::take(std::size_t members) {
  std::size_t free = 0;
  for (std::size_t unit = 0; unit < layout_.units; ++unit) {
    free = entry(unit).taken.load(std::memory_order_relaxed) == 0 ? free + 1 : 0;
    if (free < members) continue;
    const std::size_t first = unit + 1 - members;
    if (!take_units(first, members)) {
      free = 0;
      continue;
    }
    ArenaRegion region{static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(members), 0};
    for (std::size_t i = 0; i < members; ++i)
      region.rounds = std::max(region.rounds, entry(first + i).rounds.load(std::memory_order_relaxed));
    entry(first).left.store(region.count, std::memory_order_relaxed);
    entry(first).rounds.store(region.rounds, std::memory_order_relaxed);  // free_units() hands them on
    return region;
  }
  return std::nullopt;
}

void NodeArena::take_first(std::size_t count) {
  for (std::size_t unit = 0; unit < count; ++unit) entry(unit).taken.store(1, std::memory_order_relaxed);
  entry(0).left.store(static_cast<std::uint32_t>(count), std::memory_order_relaxed);
}

void NodeArena::leave(const ArenaRegion& region, std::uint64_t rounds) {
  if (region.count == 0) return;
  Entry& first = entry(region.first);
  for (std::uint64_t known = first.rounds.load(std::memory_order_relaxed);
       known < rounds && !first.rounds.compare_exchange_weak(known, rounds, std::memory_order_relaxed);) {
  }
  // Who leaves last has seen what all others have read and written.
  if (first.left.fetch_sub(1, std::memory_order_acq_rel) == 1) free_units(region);
}

void NodeArena::give_back(const ArenaRegion& region) {
  if (region.count > 0) free_units(region);
}

void NodeArena::free_units(const ArenaRegion& region) {
  const std::uint64_t rounds = entry(region.first).rounds.load(std::memory_order_relaxed);
  // Where the kernel refuses, the memory stays.
  if (region.first + region.count > kKeptRegions * layout_.ranks)
    static_cast<void>(madvise(unit(region.first), region.count * layout_.unit_bytes(), MADV_REMOVE));
  for (std::size_t i = region.count; i-- > 0;) {
    entry(region.first + i).rounds.store(rounds, std::memory_order_relaxed);
    entry(region.first + i).taken.store(0, std::memory_order_release);
  }
}

}  // namespace tapa
