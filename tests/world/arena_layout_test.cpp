// Where the parts of the shared memory of a node lie.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "transport/shm_buffers.hpp"
#include "transport/shm_ring.hpp"
#include "world/node_arena.hpp"

namespace tapa {
namespace {

constexpr std::size_t kMuch = std::numeric_limits<std::size_t>::max();

struct Part {
  std::size_t file;
  std::size_t begin;
  std::size_t bytes;
  std::size_t alignment;
  const char* what;
};

std::vector<Part> parts_of(const ArenaLayout& layout) {
  std::vector<Part> parts{{0, 0, sizeof(std::uint64_t), 1, "number"},
                          {0, layout.contexts_at(), ArenaLayout::kContexts / 8, 8, "contexts"},
                          {0, layout.entries_at(), layout.units * 16, 16, "entries"}};
  for (std::size_t rank = 0; rank < layout.ranks; ++rank) {
    parts.push_back({0, layout.rank_at(rank), sizeof(NodeArena::Place), alignof(NodeArena::Place), "place"});
    parts.push_back({0, layout.bell_at(rank), sizeof(Doorbell), ArenaLayout::kLine, "doorbell"});
    for (std::size_t to = 0; to < layout.ranks; ++to) {
      parts.push_back({0, layout.ring_at(rank, to), ShmRing::bytes_for(layout.ring_capacity()),
                       ArenaLayout::kLine, "ring"});
    }
  }
  for (std::size_t unit = 0; unit < layout.units; ++unit)
    parts.push_back(
        {layout.file_of(unit), layout.unit_at(unit), ShmBuffers::region_bytes(), layout.page, "unit"});
  for (std::size_t file = 1; file < layout.files(); ++file)
    parts.push_back({file, 0, sizeof(std::uint64_t), 1, "number"});
  std::ranges::sort(parts, {}, [](const Part& part) { return std::pair(part.file, part.begin); });
  return parts;
}

TEST(ArenaLayout, PartsDoNotOverlapWhateverThePages) {
  for (const std::size_t page : {std::size_t{4096}, std::size_t{65536}}) {
    for (std::size_t ranks = 1; ranks <= 64; ++ranks) {
      for (const std::size_t units : {std::size_t{0}, ranks, 3 * ranks + 1, kMostRegions * ranks}) {
        const ArenaLayout layout{ranks, units, page};
        std::vector<std::size_t> ends(layout.files());
        for (const Part& part : parts_of(layout)) {
          std::size_t& end = ends.at(part.file);
          ASSERT_GE(part.begin, end) << part.what << ", " << ranks << " ranks, " << units << " units";
          ASSERT_EQ(part.begin % part.alignment, 0U) << part.what;
          end = part.begin + part.bytes;
          ASSERT_LE(end, layout.file_bytes(part.file)) << part.what;
        }
        ASSERT_TRUE(std::has_single_bit(layout.ring_capacity()));
      }
    }
  }
}

// Ranks that touch pages of their own units for the first time do so in several files.
TEST(ArenaLayout, UnitsOfNeighboursLieInDifferentFiles) {
  const ArenaLayout few{3, 12, 4096};
  EXPECT_EQ(few.files(), 3U);
  const ArenaLayout many{32, 320, 4096};
  EXPECT_EQ(many.files(), ArenaLayout::kMostFiles);
  for (std::size_t unit = 1; unit < many.units; ++unit) EXPECT_NE(many.file_of(unit - 1), many.file_of(unit));
}

TEST(ArenaLayout, HasFewerUnitsOrNoneWhereAddressSpaceIsShort) {
  for (const std::size_t page : {std::size_t{4096}, std::size_t{65536}}) {
    for (const std::size_t ranks : {2U, 3U, 8U, 64U}) {
      auto layout = arena_layout(ranks, kMuch, page);
      for (std::size_t regions = kMostRegions; regions > 0; regions /= 2) {
        ASSERT_TRUE(layout.has_value()) << regions << " regions of " << ranks << " ranks";
        EXPECT_EQ(layout->units, regions * ranks);
        EXPECT_EQ(layout->ranks, ranks);
        EXPECT_EQ(layout->page, page);
        const std::size_t bytes = layout->bytes();
        EXPECT_EQ(arena_layout(ranks, bytes, page)->units, layout->units) << "it fits";
        layout = arena_layout(ranks, bytes - 1, page);
      }
      EXPECT_FALSE(layout.has_value()) << "not even one communicator";
      EXPECT_FALSE(arena_layout(ranks, 0, page).has_value());
    }
  }
  EXPECT_EQ(arena_layout(1, kMuch, 4096)->units, 0U) << "nobody to share them with";
}

}  // namespace
}  // namespace tapa
