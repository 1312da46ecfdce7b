// What a sparse exchange has brought: the order of sources, parts of messages, memory that is kept.
#include "run/sparse_inbox.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace tapa {
namespace {

std::vector<std::byte> bytes_of(std::size_t count, int value) {
  return std::vector<std::byte>(count, static_cast<std::byte>(value));
}

std::vector<std::byte> from(const SparseInbox& inbox, std::size_t source) {
  return {inbox.from(source).begin(), inbox.from(source).end()};
}

TEST(SparseInbox, SourcesAreInOrderHoweverMessagesCome) {
  SparseInbox inbox;
  inbox.clear(5);
  const auto first = bytes_of(3, 1);
  const auto second = bytes_of(2, 2);
  inbox.scatter(4, 0, 3, first.data());
  inbox.scatter(1, 0, 0, nullptr);
  inbox.scatter(2, 0, 3, first.data());
  inbox.scatter(2, 3, 2, second.data());  // another part of the same message
  inbox.close();
  EXPECT_THAT(inbox.sources(), testing::ElementsAre(1, 2, 4));
  EXPECT_EQ(inbox.bytes(), 8U);
  EXPECT_TRUE(from(inbox, 1).empty());
  EXPECT_THAT(from(inbox, 2),
              testing::ElementsAre(std::byte{1}, std::byte{1}, std::byte{1}, std::byte{2}, std::byte{2}));
  EXPECT_EQ(from(inbox, 4), first);
}

TEST(SparseInbox, AMessageThatIsReadIntoItsRoomStaysThere) {
  SparseInbox inbox;
  inbox.clear(2);
  std::byte* const room = inbox.room(1, false, 4);
  std::fill_n(room, 4, std::byte{7});
  inbox.scatter(1, 0, 4, room);
  inbox.close();
  EXPECT_EQ(from(inbox, 1), bytes_of(4, 7));
}

/// As when the kernel refuses to show a message, and its sender gives it in pieces.
TEST(SparseInbox, PiecesReplaceWhatARoomHeld) {
  SparseInbox inbox;
  inbox.clear(2);
  std::fill_n(inbox.room(1, false, 4), 4, std::byte{9});
  const auto piece = bytes_of(2, 5);
  inbox.scatter(1, 0, 2, piece.data());
  inbox.scatter(1, 2, 2, piece.data());
  inbox.close();
  EXPECT_EQ(from(inbox, 1), bytes_of(4, 5));
}

TEST(SparseInbox, ForgetsAndKeepsLittle) {
  SparseInbox inbox;
  inbox.clear(3);
  const auto few = bytes_of(100, 3);
  inbox.scatter(2, 0, few.size(), few.data());
  const std::byte* const place = inbox.from(2).data();
  inbox.clear(3);
  inbox.close();
  EXPECT_TRUE(inbox.sources().empty());
  EXPECT_EQ(inbox.bytes(), 0U);
  EXPECT_EQ(inbox.open(2, few.size()), place) << "no new memory for the next call";
  inbox.open(1, SparseInbox::kKeptBytes + 1);
  inbox.clear(3);
  EXPECT_EQ(inbox.from(1).data(), nullptr) << "long messages are given back";
}

}  // namespace
}  // namespace tapa
