/// @file
/// Memory of a process that the other ranks of its node can map, so that they copy blocks straight out of it:
/// what TAPA_Alloc gives. Each allocation is an anonymous file of its own (memfd); it ends with its process.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "transport/mapping.hpp"

namespace tapa {

/// Which allocation of a process: 0 is none. Its file descriptor and a number that is never used again.
using ArenaKey = std::uint64_t;

/// The allocations of this process. Thread-safe.
class Arenas {
 public:
  /// Documented library state: never destroyed, as MPI may end after static objects do.
  static Arenas& of_process();

  /// `bytes` bytes on a page of their own; null when there is no memory. Short ones, and those for which the
  /// kernel gives no file, are ordinary memory: everything works with them, through other ways.
  [[nodiscard]] void* allocate(std::size_t bytes);
  /// Gives the memory back to the system at once, also while others map it. False when `memory` was not
  /// allocated here.
  [[nodiscard]] bool free(void* memory);

  /// The allocation that holds all of these bytes and can be mapped by others.
  [[nodiscard]] ArenaKey find(const void* memory, std::size_t bytes) const;

  static constexpr std::size_t kShortest = std::size_t{4} << 10;  ///< that gets a file
  static constexpr std::size_t kMost = 256;                       ///< files, as descriptors are limited

 private:
  struct Arena {
    Mapping map;  // header page, then the memory; none for ordinary memory
    std::size_t bytes = 0;
    int fd = -1;
    ArenaKey key = 0;
  };
  [[nodiscard]] Arena open(std::size_t bytes);

  mutable std::shared_mutex mutex_;
  std::map<std::uintptr_t, Arena> arenas_;  // by first byte
  std::size_t files_ = 0;
  std::uint32_t next_ = 1;
};

/// Allocations of other processes as this one sees them: mapped when first used, unmapped within so many
/// calls of view() as there are views when their owner has freed them. Thread-safe.
class ArenaViews {
 public:
  static ArenaViews& of_process();

  /// Where `bytes` bytes at `address` of process `pid` lie here, read-only, until the owner frees them; null
  /// when they cannot be mapped (the process's share of mappings is limited, or it has no memory to note one)
  /// or do not lie in that allocation.
  [[nodiscard]] const std::byte* view(pid_t pid, ArenaKey key, std::uint64_t address, std::size_t bytes);

 private:
  struct View {
    MapShare share;
    Mapping map;
  };
  [[nodiscard]] static View open(pid_t pid, ArenaKey key);
  [[nodiscard]] static bool stale(const View& view);
  void drop_if_stale();

  std::mutex mutex_;
  std::map<std::pair<pid_t, ArenaKey>, View> views_;
  decltype(views_)::iterator next_look_ = views_.end();
};

}  // namespace tapa
