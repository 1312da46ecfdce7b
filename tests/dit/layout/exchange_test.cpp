// Every element arrives exactly once at its place, for all ranks at once, whatever the counts.
#include <gtest/gtest.h>

#include <numeric>

#include "../uneven_shapes.hpp"
#include "job.hpp"

namespace dit::test {
namespace {

std::vector<Tensor> empty_tensors(const std::vector<Tensor>& like) {
  std::vector<Tensor> tensors;
  for (const Tensor& tensor : like) tensors.emplace_back(tensor.size(), kUntouched);
  return tensors;
}

// What went wrong where, or "". `received` counts elements: with the right ones everywhere, none came twice.
std::string difference(const std::vector<Tensor>& target, const std::vector<Tensor>& expected,
                       const std::vector<std::size_t>& received) {
  for (std::size_t r = 0; r < target.size(); ++r) {
    if (target[r] != expected[r]) return "rank " + std::to_string(r) + " has other elements";
    if (received[r] != expected[r].size()) return "rank " + std::to_string(r) + " got elements twice";
  }
  return "";
}

std::vector<Tensor> sequence_tensors(const UlyssesLayout& layout, std::int64_t all_heads) {
  std::vector<Tensor> tensors;
  for (int r = 0; r < layout.ranks(); ++r) {
    tensors.push_back(tagged(layout.shape(), all_heads, sequence_tokens(layout, r), {0, all_heads}));
  }
  return tensors;
}

std::vector<Tensor> head_tensors(const UlyssesLayout& layout, AttentionTensor tensor, int group, int groups) {
  const bool query = tensor == AttentionTensor::query;
  std::vector<Tensor> tensors;
  for (int r = 0; r < layout.ranks(); ++r) {
    tensors.push_back(tagged(layout.shape(), query ? layout.shape().heads : layout.shape().kv_heads,
                             numbers(query ? layout.query_tokens(r) : Range{0, layout.tokens()}),
                             query ? layout.heads(r, group, groups) : layout.kv_heads(r, group, groups)));
  }
  return tensors;
}

template <typename Make>
std::vector<ExchangeLayout> layouts_of_all(int ranks, Make make) {
  std::vector<ExchangeLayout> layouts;
  for (int r = 0; r < ranks; ++r) layouts.push_back(make(r));
  return layouts;
}

std::string check_scatter(const UlyssesLayout& layout, AttentionTensor tensor, int group, int groups) {
  const std::int64_t heads =
      tensor == AttentionTensor::query ? layout.shape().heads : layout.shape().kv_heads;
  const std::vector<Tensor> expected = head_tensors(layout, tensor, group, groups);
  std::vector<Tensor> target = empty_tensors(expected);
  std::vector<std::size_t> received(target.size());
  const std::string error = exchange(
      layouts_of_all(layout.ranks(), [&](int r) { return layout.scatter_heads(tensor, r, group, groups); }),
      sequence_tensors(layout, heads), target, received);
  return error.empty() ? difference(target, expected, received) : error;
}

// gather(scatter(x)) = x: the scattered queries are the gather's source.
std::string check_gather(const UlyssesLayout& layout, int groups) {
  const std::vector<Tensor> expected = sequence_tensors(layout, layout.shape().heads);
  std::vector<Tensor> target = empty_tensors(expected);
  std::vector<std::size_t> received(target.size());
  for (int group = 0; group < groups; ++group) {
    const std::string error =
        exchange(layouts_of_all(layout.ranks(), [&](int r) { return layout.gather_heads(r, group, groups); }),
                 head_tensors(layout, AttentionTensor::query, group, groups), target, received);
    if (!error.empty()) return error;
  }
  return difference(target, expected, received);
}

std::string check(const AttentionShape& shape, int ranks, int groups) {
  const UlyssesLayout layout(shape, ranks);
  for (int group = 0; group < groups; ++group) {
    for (const AttentionTensor tensor : {AttentionTensor::query, AttentionTensor::key}) {
      if (const std::string error = check_scatter(layout, tensor, group, groups); !error.empty()) {
        return "scatter: " + error;
      }
    }
  }
  const std::string error = check_gather(layout, groups);
  return error.empty() ? "" : "gather: " + error;
}

std::string words(const AttentionShape& s, int ranks, int groups) {
  return "batch " + std::to_string(s.batch) + " text " + std::to_string(s.text_tokens) + " image " +
         std::to_string(s.image_tokens) + " heads " + std::to_string(s.heads) + " kv " +
         std::to_string(s.kv_heads) + " dim " + std::to_string(s.head_dim) + " order " +
         std::to_string(static_cast<int>(s.order)) + " placement " +
         std::to_string(static_cast<int>(s.text)) + " ranks " + std::to_string(ranks) + " groups " +
         std::to_string(groups);
}

// The shape in both orders and placements.
void check_all_joints(AttentionShape shape, int ranks, int groups) {
  for (const JointOrder order : {JointOrder::text_image, JointOrder::image_text}) {
    for (const TextPlacement text : {TextPlacement::split, TextPlacement::replicated}) {
      shape.order = order;
      shape.text = text;
      ASSERT_EQ(check(shape, ranks, groups), "") << words(shape, ranks, groups);
    }
  }
}

TEST(LayoutExchange, AllSmallCounts) {
  struct Tokens {
    std::int64_t text, image;
  };
  for (int ranks = 1; ranks <= 16; ++ranks) {
    for (const std::int64_t heads : {1, 2, 3, 6, 7, 16}) {
      for (std::int64_t kv_heads = 1; kv_heads <= heads; ++kv_heads) {
        if (heads % kv_heads != 0) continue;
        int variant = ranks + static_cast<int>(heads + kv_heads);  // batch and groups take turns
        for (const Tokens tokens : {Tokens{0, 0}, {0, 1}, {3, 0}, {1, 4}, {5, 7}, {2, 17}}) {
          ++variant;
          check_all_joints({variant % 2 + 1, tokens.text, tokens.image, heads, kv_heads, 1 + variant % 3},
                           ranks, variant % 3 + 1);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(LayoutExchange, CoprimeCounts) {
  // 38 heads, 4429 tokens, 12 ranks: nothing divides anything.
  check_all_joints({1, 333, 4096, 38, 38, 1}, 12, 1);
  check_all_joints({2, 77, 452, 38, 19, 3}, 12, 3);
  check_all_joints({1, 13, 101, 5, 1, 2}, 12, 2);  // more ranks than heads
  check_all_joints({1, 13, 101, 2, 2, 5}, 31, 1);  // up to 16 ranks share a head
  check_all_joints({1, 1, 2, 1, 1, 1}, 16, 1);     // most ranks have no query at all
}

TEST(LayoutExchange, WithoutTokensNothingTravels) {
  const UlyssesLayout layout({1, 0, 0, 8, 8, 4}, 3);
  for (const ExchangeLayout& exchange :
       {layout.scatter_heads(AttentionTensor::value, 1), layout.gather_heads(2)}) {
    for (const auto& blocks : {exchange.send, exchange.recv}) {
      ASSERT_EQ(blocks.size(), 3U);
      for (const PeerBlock& block : blocks) EXPECT_EQ(block.elements(), 0);
    }
  }
}

// By the blocks themselves: as many rows as the sender has, one after the other.
TEST(LayoutExchange, WhereAllRowsOfARankTravel) {
  for (const AttentionShape& shape : test::uneven_shapes()) {
    for (const int ranks : {1, 2, 5, 12, 40}) {
      const UlyssesLayout layout(shape, ranks);
      for (const AttentionTensor tensor : {AttentionTensor::query, AttentionTensor::key}) {
        const std::int64_t stride =
            (tensor == AttentionTensor::query ? shape.heads : shape.kv_heads) * shape.head_dim;
        for (int from = 0; from < ranks; ++from) {
          const ExchangeLayout sent = layout.scatter_heads(tensor, from);
          for (int to = 0; to < ranks; ++to) {
            const PeerBlock& block = sent.send[static_cast<std::size_t>(to)];
            if (block.row_elements == 0) continue;
            std::vector<std::int64_t> rows;
            for (const RowRun& run : block.runs) {
              for (std::int64_t i = 0; i < run.rows; ++i)
                rows.push_back((run.offset + i * run.stride) / stride);
            }
            std::vector<std::int64_t> all(static_cast<std::size_t>(shape.batch * layout.sequence_rows(from)));
            std::iota(all.begin(), all.end(), 0);
            EXPECT_EQ(layout.scatters_all_rows(tensor, from, to), rows == all)
                << shape.heads << " heads, " << from << " to " << to << " of " << ranks;
          }
        }
      }
    }
  }
}

TEST(LayoutExchange, EmptyGroupsAreBlocksWithoutRows) {
  const UlyssesLayout layout({1, 0, 16, 2, 2, 4}, 2);
  const ExchangeLayout exchange = layout.scatter_heads(AttentionTensor::query, 0, 0, 3);
  for (const PeerBlock& block : exchange.send) EXPECT_EQ(block, PeerBlock{});
}

TEST(LayoutExchange, AdjacentRunsAreOne) {
  // All tokens of the whole batch lie one after the other in the sequence layout of a rank.
  const UlyssesLayout layout({2, 4, 8, 4, 4, 16}, 2);
  const ExchangeLayout scatter = layout.scatter_heads(AttentionTensor::query, 1);
  EXPECT_EQ(scatter.send[0], (PeerBlock{32, {{0, 12, 64}}}));
  // In the head layout: text, image, of each sample.
  EXPECT_EQ(scatter.recv[0],
            (PeerBlock{32, {{0, 2, 32}, {4 * 32, 4, 32}, {12 * 32, 2, 32}, {16 * 32, 4, 32}}}));
  EXPECT_EQ(layout.gather_heads(1).recv[0], scatter.send[0]);
}

TEST(LayoutExchange, ReplicatedTextDoesNotTravelToHeads) {
  const UlyssesLayout layout({1, 100, 9, 3, 3, 1, JointOrder::text_image, TextPlacement::replicated}, 3);
  const ExchangeLayout scatter = layout.scatter_heads(AttentionTensor::key, 1);
  EXPECT_EQ(scatter.send[0].rows(), 3);
  EXPECT_EQ(scatter.send[1].rows(), 103);
  EXPECT_EQ(scatter.recv[2].rows(), 3);
  const ExchangeLayout gather = layout.gather_heads(1);
  for (int peer = 0; peer < 3; ++peer) EXPECT_EQ(gather.send[static_cast<std::size_t>(peer)].rows(), 103);
}

}  // namespace
}  // namespace dit::test
