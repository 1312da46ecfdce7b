#include "wire/row_selection.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

#include "../uneven_shapes.hpp"

namespace dit {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<RowFlags> random_flags(const UlyssesLayout& layout, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<RowFlags> flags;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    flags.emplace_back(static_cast<std::size_t>(layout.shape().batch * layout.sequence_rows(rank)));
    for (std::uint8_t& flag : flags.back()) flag = random() % 2;
  }
  return flags;
}

std::vector<std::uint32_t> list(const std::size_t* counts, const std::uint32_t* const* rows, int peer) {
  return {rows[peer], rows[peer] + counts[peer]};
}

// The numbers that a block's rows must have, counted element by element.
std::vector<std::uint32_t> expected(const PeerBlock& sent, const RowFlags& active, std::int64_t tensor_row,
                                    std::int64_t unit) {
  std::vector<std::uint32_t> rows;
  std::int64_t element = 0;  // of the block
  for (const RowRun& run : sent.runs) {
    for (std::int64_t i = 0; i < run.rows; ++i) {
      const auto row = static_cast<std::size_t>((run.offset + i * run.stride) / tensor_row);
      for (std::int64_t end = element + sent.row_elements; element < end; element += unit) {
        if (active[row] != 0) rows.push_back(static_cast<std::uint32_t>(element / unit));
      }
    }
  }
  return rows;
}

void check_selection(const UlyssesLayout& layout, AttentionTensor tensor, int groups) {
  const std::vector<RowFlags> flags = random_flags(layout, 3);
  const AttentionShape& shape = layout.shape();
  const std::int64_t tensor_row =
      (tensor == AttentionTensor::query ? shape.heads : shape.kv_heads) * shape.head_dim;
  std::vector<RowSelection> selections;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    selections.emplace_back(layout, tensor, rank, 0, groups, 2).select(flags, 1);
  }
  for (int from = 0; from < layout.ranks(); ++from) {
    const dit_row_selection* sent = selections[static_cast<std::size_t>(from)].get();
    if (sent == nullptr) continue;
    const ExchangeLayout exchange = layout.scatter_heads(tensor, from, 0, groups);
    for (int to = 0; to < layout.ranks(); ++to) {
      const dit_row_selection* received = selections[static_cast<std::size_t>(to)].get();
      ASSERT_NE(received, nullptr);
      EXPECT_EQ(sent->id, received->id);
      EXPECT_EQ(sent->row_bytes, received->row_bytes);
      EXPECT_EQ(sent->boundary, 1);
      const auto rows = list(sent->send_counts, sent->send_rows, to);
      EXPECT_EQ(rows, list(received->recv_counts, received->recv_rows, from));
      EXPECT_EQ(rows,
                expected(exchange.send[static_cast<std::size_t>(to)], flags[static_cast<std::size_t>(from)],
                         tensor_row, static_cast<std::int64_t>(sent->row_bytes / 2)));
    }
  }
}

TEST(RowSelection, BothSidesAgreeOnTheActiveRows) {
  for (const AttentionShape& shape : test::uneven_shapes()) {
    for (const int ranks : {1, 2, 5, 12}) {
      const UlyssesLayout layout(shape, ranks);
      for (const AttentionTensor tensor : {AttentionTensor::query, AttentionTensor::key}) {
        check_selection(layout, tensor, 1);
        check_selection(layout, tensor, 3);
      }
    }
  }
}

TEST(RowSelection, EqualIdsMeanEqualSelections) {
  std::set<std::uint64_t> ids;
  const auto id_of = [](const AttentionShape& shape, AttentionTensor tensor, unsigned seed, int boundary,
                        int ranks) {
    const UlyssesLayout layout(shape, ranks);
    RowSelection selection(layout, tensor, 0, 0, 1, 2);
    selection.select(random_flags(layout, seed), boundary);
    return selection.get()->id;
  };
  const AttentionShape shape{1, 4, 16, 4, 4, 2};
  AttentionShape replicated = shape;
  replicated.text = TextPlacement::replicated;
  AttentionShape image_first = replicated;
  image_first.order = JointOrder::image_text;
  for (const AttentionShape& s : {shape, replicated, image_first}) {
    for (const unsigned seed : {1U, 2U}) {
      for (const int boundary : {0, 1}) {
        ids.insert(id_of(s, AttentionTensor::key, seed, boundary, 2));
        // Queries go like keys, where no head is shared.
        EXPECT_EQ(ids.count(id_of(s, AttentionTensor::query, seed, boundary, 2)), 1U);
      }
    }
  }
  EXPECT_EQ(ids.size(), 12U);
  EXPECT_NE(id_of(shape, AttentionTensor::query, 1, 0, 5), id_of(shape, AttentionTensor::key, 1, 0, 5));
}

AttentionShape image_shape(std::int64_t tokens, std::int64_t heads, std::int64_t batch) {
  return {batch, 0, tokens, heads, heads, 4};
}

TEST(RowSelection, TokenOfSeveralHeadsIsSeveralRows) {
  const UlyssesLayout layout(image_shape(6, 3, 1), 2);  // rank 0 attends for one head, rank 1 for two
  RowSelection selection(layout, AttentionTensor::value, 0, 0, 1, 4);
  selection.select(std::vector<RowFlags>{{0, 1, 0}, {1, 0, 0}}, 1);
  const dit_row_selection* rows = selection.get();
  ASSERT_NE(rows, nullptr);
  EXPECT_EQ(rows->row_bytes, 16U);
  EXPECT_THAT(list(rows->send_counts, rows->send_rows, 1), ElementsAre(2, 3));  // token 1, two heads
  EXPECT_THAT(list(rows->recv_counts, rows->recv_rows, 1), ElementsAre(0));     // their token 0, my head
}

TEST(RowSelection, EqualHeadsMakeOneRowAToken) {
  const UlyssesLayout layout(image_shape(6, 4, 2), 2);
  RowSelection selection(layout, AttentionTensor::key, 1, 0, 1, 2);
  selection.select(std::vector<RowFlags>{{1, 0, 0, 0, 0, 1}, {0, 0, 0, 0, 0, 0}}, 1);
  const dit_row_selection* rows = selection.get();
  ASSERT_NE(rows, nullptr);
  EXPECT_EQ(rows->row_bytes, 2U * 4 * 2);
  EXPECT_THAT(list(rows->send_counts, rows->send_rows, 0), IsEmpty());
  EXPECT_THAT(list(rows->recv_counts, rows->recv_rows, 0), ElementsAre(0, 5));  // 5: second sample's last row
}

TEST(RowSelection, NothingToSelectWhereNothingTravels) {
  const UlyssesLayout layout({1, 0, 8, 2, 2, 4}, 2);
  EXPECT_EQ(RowSelection(layout, AttentionTensor::key, 0, 0, 3, 2).get(), nullptr);
  EXPECT_NE(RowSelection(layout, AttentionTensor::key, 0, 2, 3, 2).get(), nullptr);
}

}  // namespace
}  // namespace dit
