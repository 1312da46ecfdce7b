/// @file
/// Arenas for tests, in files of their own.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "transport/shm_segment.hpp"
#include "world/node_arena.hpp"

namespace tapa::arena_test {

inline ShmSegment make_file() {
  std::string why;
  auto file = ShmSegment::create(why);
  EXPECT_TRUE(file) << why;
  return std::move(*file);
}

/// Those of a node of so many ranks.
inline std::vector<ShmSegment> make_files(std::size_t ranks) {
  std::vector<ShmSegment> files;
  while (files.size() < ranks) files.push_back(make_file());
  return files;
}

inline std::shared_ptr<NodeArena> map_arena(const std::vector<ShmSegment>& files, const ArenaLayout& layout) {
  std::string why;
  const auto open = [&](std::size_t file) { return files::Descriptor(dup(files[file].fd())); };
  auto arena = NodeArena::map(open, layout, why);
  EXPECT_NE(arena, nullptr) << why;
  return arena;
}

inline std::shared_ptr<NodeArena> make_arena(std::size_t ranks, std::size_t units) {
  return map_arena(make_files(ranks), {ranks, units, page_bytes()});
}

/// The first unit of what was taken, or nothing.
inline std::optional<std::size_t> first_of(const std::optional<ArenaRegion>& region) {
  return region ? std::optional<std::size_t>(region->first) : std::nullopt;
}

inline void leave_all(NodeArena& arena, const ArenaRegion& region, std::uint64_t rounds) {
  for (std::size_t member = 0; member < region.count; ++member) arena.leave(region, rounds);
}

}  // namespace tapa::arena_test
