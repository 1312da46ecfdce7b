// What is sent and what arrives, between all ranks of a layout, without an exchange: blocks are handed over.
#include "wire/active_blocks.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <stdexcept>

#include "uneven_shapes.hpp"
#include "wire/pack.hpp"
#include "wire/v_major.hpp"

namespace dit {
namespace {

using Bytes = std::vector<std::byte>;
using Rows = std::vector<std::uint32_t>;

Bytes random_bytes(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// A rank's active rows, as many of each sample as the ratio says.
Rows random_rows(const UlyssesLayout& layout, int rank, double ratio) {
  std::mt19937 random(static_cast<unsigned>(rank) + 7);
  const std::int64_t rows = layout.sequence_rows(rank);
  Rows active;
  for (std::int64_t sample = 0; sample < layout.shape().batch; ++sample) {
    std::vector<float> scores(static_cast<std::size_t>(rows));
    for (float& score : scores) score = static_cast<float>(random() % 1000);
    for (const std::uint32_t row : choose_active_rows(scores, ratio)) {
      active.push_back(static_cast<std::uint32_t>(sample * rows) + row);
    }
  }
  return active;
}

/// As fp32, that bf16 holds too.
Bytes random_numbers(std::size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(bytes / sizeof(float));
  for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 511) - 255);
  Bytes result(bytes);
  std::memcpy(result.data(), values.data(), bytes);
  return result;
}

std::size_t row_elements_of(const UlyssesLayout& layout, AttentionTensor tensor) {
  return static_cast<std::size_t>(
      (tensor == AttentionTensor::query ? layout.shape().heads : layout.shape().kv_heads) *
      layout.shape().head_dim);
}

/// Everything that `rank` sends and receives at two ratios one after the other, beside the full exchange.
struct Side {
  ActiveBlocks blocks;
  Bytes tensor, sent, received, cached, expected;
  Rows active;
  ExchangeLayout full;
  std::size_t element = 2;  // bytes
};

bool slow(int a, int b) {
  return a / 2 != b / 2;  // nodes of two
}

std::vector<Side> sides_of(const UlyssesLayout& layout, AttentionTensor tensor, int group, int groups,
                           bool narrow = false) {
  const std::size_t element = narrow ? sizeof(float) : 2;
  const auto random = narrow ? random_numbers : random_bytes;
  std::vector<Side> sides;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    std::vector<bool> selected;
    for (int peer = 0; peer < layout.ranks(); ++peer) selected.push_back(slow(rank, peer));
    const ActiveBlocks blocks(layout, tensor, rank, group, groups, element, selected, narrow);
    Side side{blocks, {}, {}, {}, {}, {}, {}, layout.scatter_heads(tensor, rank, group, groups), element};
    const auto rows = static_cast<std::size_t>(layout.shape().batch * layout.sequence_rows(rank));
    side.tensor = random(rows * row_elements_of(layout, tensor) * element, static_cast<unsigned>(rank));
    side.sent.resize(blocks.most_send_bytes());
    side.received.resize(blocks.most_recv_bytes());
    side.cached = random(packed_bytes(side.full.recv, element), 99);
    side.expected = side.cached;
    sides.push_back(std::move(side));
  }
  return sides;
}

/// What the caches must hold afterwards, row by row from the definition.
void expect_rows(const UlyssesLayout& layout, std::vector<Side>& sides, double ratio) {
  for (int from = 0; from < layout.ranks(); ++from) {
    const Side& sender = sides[static_cast<std::size_t>(from)];
    const std::size_t element = sender.element;
    Bytes all(packed_bytes(sender.full.send, element));
    pack(sender.full.send, element, sender.tensor, all);
    const auto whole = static_cast<std::int64_t>(layout.shape().batch * layout.sequence_rows(from));
    for (int to = 0; to < layout.ranks(); ++to) {
      Side& receiver = sides[static_cast<std::size_t>(to)];
      const PeerBlock& block = sender.full.send[static_cast<std::size_t>(to)];
      const auto row_bytes = static_cast<std::size_t>(block.row_elements) * element;
      const dit_block place = packed_blocks(receiver.full.recv, element)[static_cast<std::size_t>(from)];
      const dit_block source = packed_blocks(sender.full.send, element)[static_cast<std::size_t>(to)];
      Rows brought = sender.active;
      if (!slow(from, to) || block.rows() != whole || ratio == 0) {
        brought.clear();
        for (std::uint32_t row = 0; row < block.rows(); ++row) brought.push_back(row);
      }
      for (const std::uint32_t row : brought) {
        if (row_bytes > 0) {
          std::memcpy(receiver.expected.data() + place.offset + row * row_bytes,
                      all.data() + source.offset + row * row_bytes, row_bytes);
        }
      }
    }
  }
}

void exchange(const UlyssesLayout& layout, std::vector<Side>& sides, double ratio) {
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    Side& side = sides[static_cast<std::size_t>(rank)];
    side.blocks.set_ratio(ratio);
    side.active = random_rows(layout, rank, ratio);
    side.blocks.pack(side.tensor, side.active, side.sent);
  }
  for (std::size_t from = 0; from < sides.size(); ++from) {
    for (std::size_t to = 0; to < sides.size(); ++to) {
      const dit_block& sent = sides[from].blocks.send_blocks()[to];
      const dit_block& expected = sides[to].blocks.recv_blocks()[from];
      ASSERT_EQ(sent.bytes, expected.bytes) << from << " to " << to;
      std::copy_n(sides[from].sent.begin() + static_cast<std::ptrdiff_t>(sent.offset), sent.bytes,
                  sides[to].received.begin() + static_cast<std::ptrdiff_t>(expected.offset));
    }
  }
  for (Side& side : sides) {
    side.blocks.unpack(side.received, packed_blocks(side.full.recv, side.element), side.cached);
  }
}

TEST(ActiveBlocks, ActiveRowsReachTheirPlacesAndOthersStay) {
  for (const AttentionShape& shape : test::uneven_shapes()) {
    for (const int ranks : {1, 2, 5, 12}) {
      const UlyssesLayout layout(shape, ranks);
      for (const AttentionTensor tensor : {AttentionTensor::query, AttentionTensor::value}) {
        for (const int groups : {1, 3}) {
          std::vector<Side> sides = sides_of(layout, tensor, groups - 1, groups);
          for (const double ratio : {0.4, 1.0, 0.0}) {
            SCOPED_TRACE(std::to_string(shape.heads) + " heads, " + std::to_string(ranks) + " ranks, ratio " +
                         std::to_string(ratio));
            exchange(layout, sides, ratio);
            expect_rows(layout, sides, ratio);
            for (const Side& side : sides) EXPECT_EQ(side.cached, side.expected);
          }
        }
      }
    }
  }
}

TEST(ActiveBlocks, NarrowRowsArriveInHalfTheBytes) {
  for (const AttentionShape& shape : test::uneven_shapes()) {
    for (const int ranks : {2, 5, 12}) {
      const UlyssesLayout layout(shape, ranks);
      for (const AttentionTensor tensor : {AttentionTensor::query, AttentionTensor::value}) {
        std::vector<Side> sides = sides_of(layout, tensor, 0, 1, true);
        for (const double ratio : {0.4, 0.0}) {
          exchange(layout, sides, ratio);
          expect_rows(layout, sides, ratio);
          for (const Side& side : sides) EXPECT_EQ(side.cached, side.expected);
        }
        const std::vector<dit_block> wide = packed_blocks(sides[0].full.send, sizeof(float));
        for (int peer = 0; peer < ranks; ++peer) {
          const auto i = static_cast<std::size_t>(peer);
          const PeerBlock& block = sides[0].full.send[i];
          const bool masked =
              slow(0, peer) && wide[i].bytes > 0 && block.rows() == shape.batch * layout.sequence_rows(0);
          const std::size_t mask = masked ? row_mask_bytes(block.rows()) : 0;
          EXPECT_EQ(sides[0].blocks.send_blocks()[i].bytes - mask,
                    slow(0, peer) ? wide[i].bytes / 2 : wide[i].bytes);
        }
      }
    }
  }
}

TEST(ActiveBlocks, BytesOfABlock) {
  const UlyssesLayout layout({2, 0, 20, 4, 4, 8}, 2);  // ten tokens, two heads a rank
  ActiveBlocks blocks(layout, AttentionTensor::key, 0, 0, 1, 4, {false, true});
  blocks.set_ratio(0.5);
  EXPECT_EQ(blocks.send_blocks()[0].bytes, 2U * 10 * 2 * 8 * 4);
  EXPECT_EQ(blocks.send_blocks()[1].bytes,
            3 + 2U * 5 * 2 * 8 * 4);  // a bit for each of 20 rows, half of them
  EXPECT_EQ(blocks.recv_blocks()[1].bytes, blocks.send_blocks()[1].bytes);
  blocks.set_ratio(1);
  EXPECT_EQ(blocks.send_blocks()[1].bytes, 3U);
  EXPECT_EQ(blocks.most_send_bytes(), 2 * 2U * 10 * 2 * 8 * 4 + 3);
}

TEST(ActiveBlocks, TellsWhichRowsAPeerSent) {
  const UlyssesLayout layout({1, 0, 8, 2, 2, 2}, 2);
  std::vector<Side> sides = sides_of(layout, AttentionTensor::value, 0, 1);
  EXPECT_EQ(sides[0].blocks.active_rows_of(1, sides[0].received), (Rows{0, 1, 2, 3})) << "same node";
  for (int rank : {0, 1}) {
    sides[static_cast<std::size_t>(rank)].blocks =
        ActiveBlocks(layout, AttentionTensor::value, rank, 0, 1, 2, {rank != 0, rank != 1});
  }
  exchange(layout, sides, 0.5);
  EXPECT_EQ(sides[0].blocks.active_rows_of(1, sides[0].received), sides[1].active);
  EXPECT_EQ(sides[0].blocks.active_rows_of(0, sides[0].received), (Rows{0, 1, 2, 3}));
}

/// What `call` throws, or "".
template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

TEST(ActiveBlocks, RefusesWhatDoesNotFit) {
  const UlyssesLayout layout({1, 0, 8, 2, 2, 2}, 2);
  ActiveBlocks blocks(layout, AttentionTensor::value, 0, 0, 1, 2, {false, true});
  blocks.set_ratio(0.5);
  const Bytes tensor(4 * 2 * 2 * 2);
  Bytes buffer(blocks.most_send_bytes());
  const auto pack = [&](const Rows& active, std::span<const std::byte> from, std::span<std::byte> to) {
    return refusal([&] { blocks.pack(from, active, to); });
  };
  EXPECT_EQ(pack({0, 3}, tensor, buffer), "");
  EXPECT_EQ(pack({0}, tensor, buffer), "active has 1 active rows: expected 2");
  EXPECT_EQ(pack({0, 4}, tensor, buffer), "active row 4: expected less than rows = 4");
  EXPECT_NE(pack({0, 3}, std::span(tensor).first(20), buffer), "");
  EXPECT_EQ(pack({0, 3}, tensor, std::span(buffer).first(20)), "the send buffer has 20 bytes: expected 25");
  const std::vector<dit_block> places = {{0, 16}, {16, 16}};
  Bytes cached(32);
  Bytes received(25);
  const auto unpack = [&](std::span<std::byte> into) {
    return refusal([&] { blocks.unpack(received, places, into); });
  };
  received[16] = std::byte{0b1001};
  EXPECT_EQ(unpack(cached), "");
  EXPECT_EQ(unpack(std::span(cached).first(31)), "the rows has 31 bytes: expected 32");
  received[16] = std::byte{0b1011};
  EXPECT_EQ(unpack(cached), "from rank 1: row mask has 3 active rows: expected 2");
  received[16] = std::byte{0b10001};
  EXPECT_EQ(unpack(cached), "from rank 1: row mask has row 4: expected none at or beyond rows = 4");
}

}  // namespace
}  // namespace dit
