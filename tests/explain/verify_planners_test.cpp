// Every planner, on every shape of machine: the verifier finds nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "../plan/shapes.hpp"
#include "explain/verify.hpp"
#include "plan/planner.hpp"

namespace tapa {
namespace {

class AllPlanners : public testing::TestWithParam<int> {
 protected:
  [[nodiscard]] int ranks() const { return GetParam(); }

  void check(const Topology& topology, const Counts& counts, const std::string& kind,
             const std::string& choice) {
    ASSERT_EQ(topology.check(), "");
    const std::vector<Defect> defects = verify(make_plan(topology, counts, parse_choice(choice)), counts);
    for (const Defect& d : defects) {
      ADD_FAILURE() << ranks() << " ranks, " << topology.name << ", " << kind << " counts, " << choice << ": "
                    << to_string(d.kind) << ": " << d.what;
    }
  }

  /// Up to 24 ranks with both kinds of counts, beyond in turn.
  void check_all(const std::vector<Topology>& shapes, const std::vector<std::string>& choices) {
    const Counts uniform = Counts::uniform(ranks(), 24);
    const Counts random = test::random_counts(ranks(), static_cast<unsigned>(ranks()));
    unsigned turn = static_cast<unsigned>(ranks());
    for (const Topology& shape : shapes) {
      for (const std::string& choice : choices) {
        ++turn;
        if (ranks() <= 24 || turn % 2 == 0) check(shape, uniform, "uniform", choice);
        if (ranks() <= 24 || turn % 2 == 1) check(shape, random, "random", choice);
        if (HasFailure()) return;
      }
      ++turn;  // so that a choice gets both kinds over the shapes
    }
  }
};

TEST_P(AllPlanners, FlatExchangesAreRight) {
  const std::vector<Topology> shape = {test::make_shape("one group", ranks(), {})};
  check_all(shape, test::flat_choices());
  check(shape[0], Counts::uniform(ranks(), 0), "zero", "bruck");
}

TEST_P(AllPlanners, OneSplitIsRight) {
  check_all(test::one_level_shapes(ranks()), test::one_level_choices());
}

TEST_P(AllPlanners, TwoSplitsAreRight) {
  check_all(test::two_level_shapes(ranks()), test::two_level_choices());
}

INSTANTIATE_TEST_SUITE_P(Ranks, AllPlanners, testing::Range(1, 65));

bool same(const RankPlan& a, const RankPlan& b) {
  const auto same_step = [&](const Step& x, const Step& y) {
    return x.kind == y.kind && x.phase == y.phase && x.peer == y.peer && x.channel == y.channel &&
           x.bytes == y.bytes && std::ranges::equal(a.from(x), b.from(y)) &&
           std::ranges::equal(a.to(x), b.to(y)) && std::ranges::equal(a.deps_of(x), b.deps_of(y));
  };
  return a.rank == b.rank && a.ranks == b.ranks && a.channels == b.channels &&
         a.scratch_bytes == b.scratch_bytes && std::ranges::equal(a.steps, b.steps, same_step);
}

/// The ranks whose counts knowledge_needed() says that a rank must have.
std::vector<int> ranks_to_know(const Topology& topology, const Choice& choice, int rank) {
  if (knowledge_needed(choice) == Knowledge::own) return {rank};
  std::vector<int> known;
  const int split = choice.splits.empty() ? -1 : topology.find_level(choice.splits.back());
  for (int r = 0; r < topology.ranks; ++r) {
    if (knowledge_needed(choice) == Knowledge::all || topology.level_of(rank, r) <= split) known.push_back(r);
  }
  return known;
}

Counts part_of(const Counts& counts, const std::vector<int>& known) {
  std::vector<std::size_t> rows;
  std::vector<std::size_t> columns;
  for (const int k : known) {
    for (int other = 0; other < counts.ranks(); ++other) {
      rows.push_back(counts.bytes(k, other));
      columns.push_back(counts.bytes(other, k));
    }
  }
  return Counts::partial(counts.ranks(), known, rows, columns);
}

/// A rank that knows only what knowledge_needed() asks for makes the plan that one with all counts makes.
TEST(PartialKnowledge, GivesTheSamePlan) {
  for (const int ranks : {1, 2, 5, 8, 12, 17}) {
    const Counts counts = test::random_counts(ranks, static_cast<unsigned>(ranks));
    const auto check = [&](const std::vector<Topology>& shapes, const std::vector<std::string>& choices) {
      for (const Topology& shape : shapes) {
        for (const std::string& text : choices) {
          const Choice choice = parse_choice(text);
          for (int rank = 0; rank < ranks; ++rank) {
            const Counts part = part_of(counts, ranks_to_know(shape, choice, rank));
            ASSERT_TRUE(same(plan_rank(shape, part, choice, rank), plan_rank(shape, counts, choice, rank)))
                << ranks << " ranks, " << shape.name << ", " << text << ", rank " << rank;
          }
        }
      }
    };
    check({test::make_shape("one group", ranks, {})}, test::flat_choices());
    check(test::one_level_shapes(ranks), test::one_level_choices());
    check(test::two_level_shapes(ranks), test::two_level_choices());
  }
}

/// How many pieces of memory the message has that crosses nodes and holds a block that is only passed on.
std::size_t most_pieces(const Topology& shape, const Counts& counts, const std::string& choice, bool sent) {
  std::size_t most = 0;
  for (const RankPlan& rank : make_plan(shape, counts, parse_choice(choice)).of_rank) {
    for (const Step& step : rank.steps) {
      const bool message = step.kind == (sent ? StepKind::send : StepKind::recv);
      if (!message || shape.node_of(rank.rank) == shape.node_of(step.peer)) continue;
      const auto pieces = sent ? rank.from(step) : rank.to(step);
      const auto passed_on = [](const Segment& s) { return s.buffer == Buffer::scratch; };
      if (std::ranges::any_of(pieces, passed_on)) most = std::max(most, pieces.size());
    }
  }
  return most;
}

/// What was aggregated is sent from where it arrived, and what is to be spread is received in one piece.
TEST(SlowMessages, AreNeitherGatheredNorScattered) {
  const std::vector<std::vector<int>> shapes{{2, 2},          {3, 3},       {2, 2, 2}, {5},
                                             {1, 1, 1, 1, 1}, {4, 1, 2, 3}, {1, 6}};
  for (const std::vector<int>& sizes : shapes) {
    std::vector<int> node;
    for (std::size_t n = 0; n < sizes.size(); ++n)
      node.insert(node.end(), static_cast<std::size_t>(sizes[n]), static_cast<int>(n));
    const auto ranks = static_cast<int>(node.size());
    const Topology shape = test::make_shape(
        "nodes", ranks, {{"node", [&](int r) { return node[static_cast<std::size_t>(r)]; }}});
    for (const bool uniform : {true, false}) {
      const Counts counts = uniform ? Counts::uniform(ranks, 24) : test::random_counts(ranks, 5);
      for (const char* choice :
           {"tapa:split=node", "tapa:split=node,slow=pairwise", "tapa:split=node,pipeline=2",
            "tapa:split=node,fast=bruck(2)", "leaders:split=node", "leaders:split=node,leaders=2",
            "leaders:split=node,local=leader"}) {
        EXPECT_LE(most_pieces(shape, counts, choice, true), 1U) << ranks << " " << choice;
      }
      for (const char* choice : {"tapa:split=node,order=slow-first", "leaders:split=node",
                                 "leaders:split=node,leaders=2", "leaders:split=node,local=leader"}) {
        EXPECT_LE(most_pieces(shape, counts, choice, false), 1U) << ranks << " " << choice;
      }
    }
  }
}

/// CoCoDiff, arXiv 2604.14561, III-A and III-E: tile pairs exchange first, then all ranks of a tile index.
class PaperPhases : public testing::TestWithParam<int> {};

TEST_P(PaperPhases, AuroraSplitAtTheTilePair) {
  const int ranks = GetParam();
  const std::size_t block = 1000;
  const Topology aurora = test::make_shape(
      "aurora", ranks, {{"tile", [](int r) { return r / 2; }}, {"node", [](int r) { return r / 12; }}});
  const Counts counts = Counts::uniform(ranks, block);
  const Plan plan = make_plan(aurora, counts, parse_choice("tapa:split=tile"));
  ASSERT_TRUE(verify(plan, counts).empty());
  ASSERT_EQ(plan.phases.size(), 2U);
  for (const RankPlan& rank : plan.of_rank) {
    const int sibling = rank.rank ^ 1;
    std::vector<int> peers[2];
    std::size_t bytes[2] = {0, 0};
    for (const Step& step : rank.steps) {
      if (step.kind != StepKind::send) continue;
      ASSERT_LT(step.phase, 2);
      peers[step.phase].push_back(step.peer);
      bytes[step.phase] += step.bytes;
      if (step.phase == 0) {
        // Exactly the blocks whose destination has the sibling's tile index, each whole.
        std::vector<int> blocks;
        for (const Segment& s : rank.from(step)) {
          EXPECT_EQ(s.buffer, Buffer::send);
          EXPECT_EQ(s.bytes, block);
          blocks.push_back(s.block);
        }
        std::sort(blocks.begin(), blocks.end());
        std::vector<int> expected;
        for (int dst = sibling % 2; dst < ranks; dst += 2) expected.push_back(dst);
        EXPECT_EQ(blocks, expected);
      } else {
        // An aggregate of two blocks to a rank of the same tile index: its own and its sibling's.
        EXPECT_EQ(step.peer % 2, rank.rank % 2);
        EXPECT_EQ(step.bytes, 2 * block);
        EXPECT_EQ(aurora.level_of(rank.rank, step.peer), rank.rank / 12 == step.peer / 12 ? 1 : 2);
      }
    }
    const auto half = static_cast<std::size_t>(ranks) / 2;
    EXPECT_EQ(peers[0], std::vector<int>{sibling});  // 1 peer, half of the send buffer
    EXPECT_EQ(bytes[0], half * block);
    std::sort(peers[1].begin(), peers[1].end());
    EXPECT_EQ(peers[1].size(), half - 1);  // P/2 - 1 peers, each once
    EXPECT_EQ(std::adjacent_find(peers[1].begin(), peers[1].end()), peers[1].end());
    EXPECT_EQ(bytes[1], (half - 1) * 2 * block);
  }
}

TEST_P(PaperPhases, TheInverseRunsTheSecondPhaseFirst) {
  const int ranks = GetParam();
  const Topology aurora = test::make_shape(
      "aurora", ranks, {{"tile", [](int r) { return r / 2; }}, {"node", [](int r) { return r / 12; }}});
  const Counts counts = Counts::uniform(ranks, 64);
  const Plan plan = make_plan(aurora, counts, parse_choice("tapa:split=tile,order=slow-first"));
  ASSERT_TRUE(verify(plan, counts).empty());
  for (const RankPlan& rank : plan.of_rank) {
    for (const Step& step : rank.steps) {
      if (step.kind != StepKind::send) continue;
      // Across pairs only inside the tile index, waiting for nothing.
      if (step.peer / 2 != rank.rank / 2) {
        EXPECT_EQ(step.peer % 2, rank.rank % 2);
        EXPECT_EQ(step.deps.count, 0U);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Nodes, PaperPhases, testing::Values(2, 4, 12, 24, 48, 96));

}  // namespace
}  // namespace tapa
