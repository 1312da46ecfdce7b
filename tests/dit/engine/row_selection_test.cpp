// Which rows of which blocks travel: both sides must say the same, for any heads, tokens, ranks and groups.
#include "engine/row_selection.hpp"

#include <gtest/gtest.h>

namespace dit {
namespace {

AttentionShape shape_of(std::int64_t tokens, std::int64_t heads, std::int64_t batch) {
  AttentionShape shape;
  shape.batch = batch;
  shape.image_tokens = tokens;
  shape.heads = shape.kv_heads = heads;
  shape.head_dim = 4;
  return shape;
}

/// Every third row, another third on each rank.
std::vector<RowFlags> some_rows(const UlyssesLayout& layout) {
  std::vector<RowFlags> active;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    RowFlags flags(static_cast<std::size_t>(layout.shape().batch * layout.sequence_rows(rank)), 0);
    for (std::size_t row = static_cast<std::size_t>(rank) % 3; row < flags.size(); row += 3) {
      flags[row] = 1;
    }
    active.push_back(flags);
  }
  return active;
}

void expect_agreement(const UlyssesLayout& layout, AttentionTensor tensor, int groups) {
  const std::vector<RowFlags> active = some_rows(layout);
  for (int group = 0; group < groups; ++group) {
    std::vector<RowSelection> selections;
    for (int rank = 0; rank < layout.ranks(); ++rank) {
      selections.emplace_back(layout, tensor, rank, group, groups, 4);
      selections.back().select(active, 1);
    }
    for (std::size_t from = 0; from < selections.size(); ++from) {
      for (std::size_t to = 0; to < selections.size(); ++to) {
        const dit_row_selection* sent = selections[from].get();
        const dit_row_selection* expected = selections[to].get();
        ASSERT_EQ(sent == nullptr, expected == nullptr);
        if (sent == nullptr) continue;
        ASSERT_EQ(sent->row_bytes, expected->row_bytes);
        ASSERT_EQ(sent->id, expected->id);
        ASSERT_EQ(
            std::vector(sent->send_rows[to], sent->send_rows[to] + sent->send_counts[to]),
            std::vector(expected->recv_rows[from], expected->recv_rows[from] + expected->recv_counts[from]));
      }
    }
  }
}

TEST(RowSelection, BothSidesAgree) {
  for (const int ranks : {1, 2, 3, 5, 7, 12}) {
    for (const std::int64_t batch : {1, 2}) {
      const UlyssesLayout layout(shape_of(23, 5, batch), ranks);
      for (const AttentionTensor tensor :
           {AttentionTensor::query, AttentionTensor::key, AttentionTensor::value}) {
        for (const int groups : {1, 2}) {
          expect_agreement(layout, tensor, groups);
        }
      }
    }
  }
}

TEST(RowSelection, TokenOfSeveralHeadsIsSeveralRows) {
  const UlyssesLayout layout(shape_of(6, 3, 1), 2);  // rank 0 attends for one head, rank 1 for two
  RowSelection selection(layout, AttentionTensor::value, 0, 0, 1, 4);
  selection.select(std::vector<RowFlags>{{0, 1, 0}, {1, 0, 0}}, 1);
  const dit_row_selection* rows = selection.get();
  ASSERT_NE(rows, nullptr);
  EXPECT_EQ(rows->row_bytes, 16U);
  ASSERT_EQ(rows->send_counts[1], 2U);  // token 1, two heads
  EXPECT_EQ(rows->send_rows[1][0], 2U);
  EXPECT_EQ(rows->send_rows[1][1], 3U);
  ASSERT_EQ(rows->recv_counts[1], 1U);  // their token 0, my head
  EXPECT_EQ(rows->recv_rows[1][0], 0U);
}

TEST(RowSelection, EqualHeadsMakeOneRowAToken) {
  const UlyssesLayout layout(shape_of(6, 4, 2), 2);
  RowSelection selection(layout, AttentionTensor::key, 1, 0, 1, 2);
  selection.select(std::vector<RowFlags>{{1, 0, 0, 0, 0, 1}, {0, 0, 0, 0, 0, 0}}, 1);
  EXPECT_EQ(selection.get()->row_bytes, 2U * 4 * 2);
  EXPECT_EQ(selection.get()->send_counts[0], 0U);
  ASSERT_EQ(selection.get()->recv_counts[0], 2U);
  EXPECT_EQ(selection.get()->recv_rows[0][1], 5U) << "the second sample's last row";
}

TEST(RowSelection, IdTellsContentsApart) {
  const UlyssesLayout layout(shape_of(6, 4, 1), 2);
  const auto id = [&](AttentionTensor tensor, const std::vector<RowFlags>& active) {
    RowSelection selection(layout, tensor, 0, 0, 1, 4);
    selection.select(active, 1);
    return selection.get()->id;
  };
  const std::vector<RowFlags> some = {{1, 0, 0}, {0, 1, 0}};
  EXPECT_EQ(id(AttentionTensor::value, some), id(AttentionTensor::key, some))
      << "prepared once for all tensors";
  EXPECT_EQ(id(AttentionTensor::value, some), id(AttentionTensor::query, some));
  EXPECT_NE(id(AttentionTensor::value, some), id(AttentionTensor::value, {{1, 0, 0}, {0, 0, 1}}));
  const UlyssesLayout shared(shape_of(6, 2, 1), 3);  // queries are dealt out, keys are not
  RowSelection query(shared, AttentionTensor::query, 0, 0, 1, 4);
  RowSelection key(shared, AttentionTensor::key, 0, 0, 1, 4);
  const std::vector<RowFlags> three = {{1, 0}, {0, 1}, {0, 0}};
  query.select(three, 1);
  key.select(three, 1);
  EXPECT_NE(query.get()->id, key.get()->id);
}

}  // namespace
}  // namespace dit
