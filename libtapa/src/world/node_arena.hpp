/// @file
/// The shared memory of a node: one anonymous file for all ranks and communicators. Reserved: pages are taken
/// when an exchange first needs them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/mapping.hpp"
#include "transport/shm_segment.hpp"

namespace tapa {

/// Where everything lies in the file, in bytes:
///     number | what each rank tells | doorbells | contexts | what is known of the units | rings | units
struct ArenaLayout {
  std::size_t ranks = 1;  ///< of the node
  std::size_t units = 0;
  std::size_t page = 0;  ///< of the system

  static constexpr std::size_t kLine = 128;       ///< processors fetch lines in pairs
  static constexpr std::size_t kContexts = 2048;  ///< most of a node

  /// Smaller rings where many ranks share a node: their number grows with the square.
  [[nodiscard]] std::size_t ring_capacity() const;
  [[nodiscard]] std::size_t ring_bytes() const;
  [[nodiscard]] std::size_t rank_at(std::size_t rank) const { return kLine + rank * kLine; }
  [[nodiscard]] std::size_t bell_at(std::size_t rank) const { return rank_at(ranks) + rank * kLine; }
  [[nodiscard]] std::size_t contexts_at() const { return bell_at(ranks); }
  [[nodiscard]] std::size_t entries_at() const { return contexts_at() + kContexts / 8; }
  [[nodiscard]] std::size_t rings_at() const;
  [[nodiscard]] std::size_t ring_at(std::size_t from, std::size_t to) const {
    return rings_at() + (to * ranks + from) * ring_bytes();
  }
  [[nodiscard]] std::size_t unit_bytes() const;
  [[nodiscard]] std::size_t unit_at(std::size_t unit) const;
  [[nodiscard]] std::size_t file_bytes() const { return unit_at(units); }
};

/// Of a node of so many ranks that can spare so many bytes of address space each: units for kMostRegions
/// communicators of all of them, or as fit. Nothing: not even for one.
[[nodiscard]] std::optional<ArenaLayout> arena_layout(std::size_t ranks, std::size_t most_bytes,
                                                      std::size_t page);
inline constexpr std::size_t kMostRegions = 64;

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
  [[nodiscard]] std::optional<unsigned> take(unsigned most);
  void give(unsigned context);

 private:
  std::atomic<std::uint64_t>* words_;
  std::atomic<unsigned> next_{0};  // this process looks from here on
};

/// One rank's view of it. What it hands out is thread-safe, and safe between processes.
class NodeArena {
 public:
  /// Maps the file, which need not stay open; null, with the reason in `why`, when that is not possible.
  static std::shared_ptr<NodeArena> map(int fd, const ArenaLayout& layout, std::string& why);

  [[nodiscard]] const ArenaLayout& layout() const { return layout_; }
  [[nodiscard]] Doorbell* bell(std::size_t rank) const;
  [[nodiscard]] std::byte* ring(std::size_t from, std::size_t to) const {
    return at(layout_.ring_at(from, to));
  }
  [[nodiscard]] std::byte* unit(std::size_t unit) const { return at(layout_.unit_at(unit)); }

  /// Where a rank runs: its last cache and package (0: not known, or not bound), and a bit for each processor
  /// that it may have (none: more than fit).
  struct Place {
    std::uint32_t cache;
    std::uint32_t package;
    std::array<std::uint64_t, 15> cores;
  };
  /// What a rank tells the others before they agree that the arena can be used.
  [[nodiscard]] Place& place(std::size_t rank) const;

  /// Units for a communicator, taken by one of its ranks; nothing when there are not so many. All of
  /// `members` ranks leave() it, or none has seen it and one gives it back by give_back().
  [[nodiscard]] std::optional<ArenaRegion> take(std::size_t members);
  /// This rank uses it no more, after its last exchange there; `rounds`: that exchanges have used by now.
  void leave(const ArenaRegion& region, std::uint64_t rounds);
  void give_back(const ArenaRegion& region);
  /// The first `count` units are taken, before others can take any.
  void take_first(std::size_t count);

  /// Numbers of communicators, alike on this node.
  [[nodiscard]] Contexts& contexts() { return contexts_; }

 private:
  /// What is known of a unit. Zero-initialised and never constructed.
  struct Entry {
    std::atomic<std::uint32_t> taken;
    std::atomic<std::uint32_t> left;    // of a region's first: ranks that have not left
    std::atomic<std::uint64_t> rounds;  // that exchanges have used
  };

  NodeArena(Mapping mapping, MapShare share, const ArenaLayout& layout);
  [[nodiscard]] std::byte* at(std::size_t offset) const { return mapping_.address() + offset; }
  [[nodiscard]] Entry& entry(std::size_t unit) const;
  [[nodiscard]] bool take_units(std::size_t first, std::size_t count);
  void free_units(const ArenaRegion& region);

  ArenaLayout layout_;
  MapShare share_;
  Mapping mapping_;
  Contexts contexts_;
};

}  // namespace tapa
