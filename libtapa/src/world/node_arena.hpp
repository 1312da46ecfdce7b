/// @file
/// The shared memory of a node: a few anonymous files, whose pages are taken when an exchange needs them.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "files/descriptor.hpp"
#include "transport/mapping.hpp"
#include "transport/memory_file.hpp"
#include "transport/shm_buffers.hpp"
#include "transport/shm_ring.hpp"
#include "transport/shm_segment.hpp"

namespace tapa {

/// Where everything lies in the files, in bytes. In the first one:
///     number | what each rank tells | doorbells | contexts | what is known of the units | rings | units
/// in the others:
///     number | units
/// Units lie in the files by turns: the kernel adds pages to a file one after the other, whoever asks, so
/// that the first calls of many ranks would wait for each other.
struct ArenaLayout {
  std::size_t ranks = 1;  ///< of the node
  std::size_t units = 0;
  std::size_t page = 0;  ///< of the system

  static constexpr std::size_t kLine = 128;       ///< processors fetch lines in pairs
  static constexpr std::size_t kEntryBytes = 16;  ///< for each unit
  static constexpr std::size_t kContexts = 2048;  ///< most of a node
  static constexpr std::size_t kMostFiles = 8;

  [[nodiscard]] std::size_t files() const { return std::min(ranks, kMostFiles); }

  /// Smaller rings where many ranks share a node: their number grows with the square.
  [[nodiscard]] std::size_t ring_capacity() const {
    constexpr std::size_t most = ShmRing::kMaxCapacity;
    return ranks <= 16 ? most : ranks <= 32 ? most / 2 : most / 4;
  }
  [[nodiscard]] std::size_t ring_bytes() const {
    return whole_units(ShmRing::bytes_for(ring_capacity()), kLine);
  }
  [[nodiscard]] std::size_t rank_at(std::size_t rank) const { return kLine + rank * kLine; }
  [[nodiscard]] std::size_t bell_at(std::size_t rank) const { return rank_at(ranks) + rank * kLine; }
  [[nodiscard]] std::size_t contexts_at() const { return bell_at(ranks); }
  [[nodiscard]] std::size_t entries_at() const { return contexts_at() + kContexts / 8; }
  [[nodiscard]] std::size_t rings_at() const { return whole_units(entries_at() + units * kEntryBytes, page); }
  [[nodiscard]] std::size_t ring_at(std::size_t from, std::size_t to) const {
    return rings_at() + (to * ranks + from) * ring_bytes();
  }
  [[nodiscard]] std::size_t unit_bytes() const { return whole_units(ShmBuffers::region_bytes(), page); }

  [[nodiscard]] std::size_t file_of(std::size_t unit) const { return unit % files(); }
  /// In its file.
  [[nodiscard]] std::size_t unit_at(std::size_t unit) const {
    return units_at(file_of(unit)) + unit / files() * unit_bytes();
  }
  [[nodiscard]] std::size_t file_bytes(std::size_t file) const {
    return units_at(file) + (units + files() - 1 - file) / files() * unit_bytes();
  }
  /// Of all files.
  [[nodiscard]] std::size_t bytes() const {
    std::size_t sum = 0;
    for (std::size_t file = 0; file < files(); ++file) sum += file_bytes(file);
    return sum;
  }

 private:
  [[nodiscard]] std::size_t units_at(std::size_t file) const {
    return file > 0 ? page : whole_units(rings_at() + ranks * ranks * ring_bytes(), page);
  }
};

inline constexpr std::size_t kMostRegions = 64;

/// Of a node of so many ranks that can spare so many bytes of address space each: units for kMostRegions
/// communicators of all of them, or as fit. Nothing: not even for one.
[[nodiscard]] inline std::optional<ArenaLayout> arena_layout(std::size_t ranks, std::size_t most_bytes,
                                                             std::size_t page) {
  for (std::size_t regions = kMostRegions; regions > 0; regions /= 2) {
    const ArenaLayout layout{ranks, ranks > 1 ? regions * ranks : 0, page};
    if (layout.bytes() <= most_bytes) return layout;
  }
  return std::nullopt;
}

/// Units of one communicator's ranks, one behind the other.
struct ArenaRegion {
  std::uint32_t first = 0;
  std::uint32_t count = 0;   ///< 0: none
  std::uint64_t rounds = 0;  ///< that exchanges have used of them before
};

/// Numbers, a bit of a word for each that is taken. Safe between threads, and processes that share words.
class Contexts {
 public:
  /// `words` are borrowed, and 0 in the beginning.
  explicit Contexts(std::atomic<std::uint64_t>* words = nullptr) : words_(words) {}
  /// One below `most` that is not taken; nothing when all are. Handed out again as late as can be: messages
  /// that nobody has received may still be on their way.
  [[nodiscard]] std::optional<unsigned> take(unsigned most) {
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

  void give(unsigned context) {
    words_[context / 64].fetch_and(~(std::uint64_t{1} << context % 64), std::memory_order_release);
  }

 private:
  std::atomic<std::uint64_t>* words_;
  std::atomic<unsigned> next_{0};  // this process looks from here on
};

/// One rank's view of it. What it hands out is thread-safe, and safe between processes.
class NodeArena {
 public:
  /// Maps the files, which need not stay open; null, with the reason in `why`, when that is not possible.
  /// `open(file)`: a Descriptor of that file; one that is not open, and the reason in `why`.
  template <class Open>
  static std::shared_ptr<NodeArena> map(const Open& open, const ArenaLayout& layout, std::string& why) {
    static_assert(sizeof(Entry) == ArenaLayout::kEntryBytes && sizeof(Doorbell) <= ArenaLayout::kLine &&
                  sizeof(Place) <= ArenaLayout::kLine);
    MapShare share;
    if (!share.grow(layout.files(), layout.bytes(), why)) return nullptr;
    std::vector<Mapping> mapped;
    for (std::size_t file = 0; file < layout.files(); ++file) {
      const files::Descriptor opened = open(file);
      const std::size_t bytes = layout.file_bytes(file);
      // Each rank sees to it: what it tells comes before the others have come here.
      if (!opened.is_open() || !set_file_bytes(opened.get(), bytes, why)) return nullptr;
      if (!mapped.emplace_back(opened.get(), 0, bytes).ok()) {
        why = "cannot map " + std::to_string(bytes) + " bytes";
        return nullptr;
      }
    }
    return std::shared_ptr<NodeArena>(new NodeArena(std::move(mapped), std::move(share), layout));
  }

  [[nodiscard]] const ArenaLayout& layout() const { return layout_; }
  [[nodiscard]] Doorbell* bell(std::size_t rank) const {
    return reinterpret_cast<Doorbell*>(at(layout_.bell_at(rank)));
  }
  [[nodiscard]] std::byte* ring(std::size_t from, std::size_t to) const {
    return at(layout_.ring_at(from, to));
  }
  [[nodiscard]] std::byte* unit(std::size_t unit) const {
    return files_[layout_.file_of(unit)].address() + layout_.unit_at(unit);
  }

  /// Where a rank runs: last cache and package (0: unknown, or not bound), a bit for each processor that
  /// fits.
  struct Place {
    std::uint32_t cache;
    std::uint32_t package;
    std::array<std::uint64_t, 15> cores;
  };
  /// What a rank tells the others before they agree that the arena can be used.
  [[nodiscard]] Place& place(std::size_t rank) const {
    return *reinterpret_cast<Place*>(at(layout_.rank_at(rank)));
  }

  /// Units for a communicator, taken by one of its ranks; nothing when there are not so many. All of
  /// `members` ranks leave() it, or none has seen it and one gives it back by give_back().
  // The lowest: those that were used before have their pages already.
  [[nodiscard]] std::optional<ArenaRegion> take(std::size_t members) {
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
  /// This rank uses it no more, after its last exchange there; `rounds`: that exchanges have used by now.
  void leave(const ArenaRegion& region, std::uint64_t rounds) {
    if (region.count == 0) return;
    Entry& first = entry(region.first);
    for (std::uint64_t known = first.rounds.load(std::memory_order_relaxed);
         known < rounds && !first.rounds.compare_exchange_weak(known, rounds, std::memory_order_relaxed);) {
    }
    // Who leaves last has seen what all others have read and written.
    if (first.left.fetch_sub(1, std::memory_order_acq_rel) == 1) free_units(region);
  }
  void give_back(const ArenaRegion& region) {
    if (region.count > 0) free_units(region);
  }
  /// The first `count` units are taken, before others can take any.
  void take_first(std::size_t count) {
    for (std::size_t unit = 0; unit < count; ++unit) entry(unit).taken.store(1, std::memory_order_relaxed);
    entry(0).left.store(static_cast<std::uint32_t>(count), std::memory_order_relaxed);
  }

  /// Numbers of communicators, alike on this node.
  [[nodiscard]] Contexts& contexts() { return contexts_; }

 private:
  // Pages of units behind those of so many regions of all ranks are given back when they are free: a program
  // that once had many communicators does not keep their memory.
  static constexpr std::size_t kKeptRegions = 8;

  /// What is known of a unit. Zero-initialised and never constructed.
  struct Entry {
    std::atomic<std::uint32_t> taken;
    std::atomic<std::uint32_t> left;    // of a region's first: ranks that have not left
    std::atomic<std::uint64_t> rounds;  // that exchanges have used
  };

  NodeArena(std::vector<Mapping> files, MapShare share, const ArenaLayout& layout)
      : layout_(layout),
        share_(std::move(share)),
        files_(std::move(files)),
        contexts_(reinterpret_cast<std::atomic<std::uint64_t>*>(at(layout.contexts_at()))) {}
  /// In the first file.
  [[nodiscard]] std::byte* at(std::size_t offset) const { return files_.front().address() + offset; }
  [[nodiscard]] Entry& entry(std::size_t unit) const {
    return reinterpret_cast<Entry*>(at(layout_.entries_at()))[unit];
  }

  /// All of them, or none.
  [[nodiscard]] bool take_units(std::size_t first, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t free = 0;
      if (entry(first + i).taken.compare_exchange_strong(free, 1, std::memory_order_acquire)) continue;
      while (i-- > 0) entry(first + i).taken.store(0, std::memory_order_release);
      return false;
    }
    return true;
  }

  void free_units(const ArenaRegion& region) {
    const std::uint64_t rounds = entry(region.first).rounds.load(std::memory_order_relaxed);
    const bool kept = region.first + region.count <= kKeptRegions * layout_.ranks;
    for (std::size_t i = region.count; i-- > 0;) {
      // Where the kernel refuses, the memory stays.
      if (!kept) static_cast<void>(madvise(unit(region.first + i), layout_.unit_bytes(), MADV_REMOVE));
      entry(region.first + i).rounds.store(rounds, std::memory_order_relaxed);
      entry(region.first + i).taken.store(0, std::memory_order_release);
    }
  }

  ArenaLayout layout_;
  MapShare share_;
  std::vector<Mapping> files_;
  Contexts contexts_;
};

}  // namespace tapa
