// Which allocations a buffer lies in.
#include "device/segments.hpp"

#include <gtest/gtest.h>

namespace tapa::device {
namespace {

/// Segments at 100 to 300, 300 to 310 and, behind a hole, 400 to 500.
std::optional<Segment> segment_at(std::uint64_t address) {
  for (const Segment& each : {Segment{100, 200}, Segment{300, 10}, Segment{400, 100}}) {
    if (address >= each.begin && address < each.begin + each.bytes) return each;
  }
  return {};
}

std::vector<std::uint64_t> begins(std::uint64_t begin, std::uint64_t bytes) {
  std::vector<std::uint64_t> found;
  for (const Segment& each : segments_of(begin, bytes, segment_at)) found.push_back(each.begin);
  return found;
}

using Begins = std::vector<std::uint64_t>;

TEST(Segments, OfABufferWithinOne) {
  EXPECT_EQ(begins(100, 200), Begins{100});
  EXPECT_EQ(begins(299, 1), Begins{100});
  EXPECT_EQ(begins(400, 1), Begins{400});
}

TEST(Segments, OfABufferOverSeveral) {
  EXPECT_EQ(begins(299, 2), (Begins{100, 300}));
  EXPECT_EQ(begins(100, 210), (Begins{100, 300}));
}

TEST(Segments, NoneWhereABufferIsNotWhollyInThem) {
  EXPECT_EQ(begins(99, 2), Begins{});
  EXPECT_EQ(begins(299, 12), Begins{});   // into the hole
  EXPECT_EQ(begins(100, 400), Begins{});  // over it
  EXPECT_EQ(begins(499, 2), Begins{});
}

TEST(Segments, NoneWhereTheDriverAnswersWithAnother) {
  const auto always_the_first = [](std::uint64_t) { return std::optional(Segment{100, 200}); };
  EXPECT_TRUE(segments_of(150, 200, always_the_first).empty());
  const auto overlapping = [](std::uint64_t at) {
    return std::optional(Segment{at < 300 ? 100U : 200U, 200});
  };
  EXPECT_TRUE(segments_of(150, 200, overlapping).empty());
}

}  // namespace
}  // namespace tapa::device
