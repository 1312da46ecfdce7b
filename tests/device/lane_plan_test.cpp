// All-to-alls between nodes as data: who relays, which messages, and that every byte arrives.
#include "device/lane_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "lane_machine.hpp"
#include "plan/planner.hpp"

namespace tapa::device {
namespace {

using testing::ElementsAre;
using Delivery = LaneMachine::Delivery;

/// A partition by the node of each rank.
Partition nodes_of(const std::vector<int>& node) {
  std::vector<std::string> names;
  for (const int each : node) names.push_back("node" + std::to_string(each));
  return nodes_of_names(names);
}

/// All ways to put `ranks` ranks on nodes, up to the nodes' names.
std::vector<std::vector<int>> all_placements(int ranks) {
  std::vector<std::vector<int>> placements = {{}};
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::vector<int>> longer;
    for (const auto& placement : placements) {
      const int nodes = placement.empty() ? 0 : 1 + *std::max_element(placement.begin(), placement.end());
      for (int node = 0; node <= nodes; ++node) {
        longer.push_back(placement);
        longer.back().push_back(node);
      }
    }
    placements = std::move(longer);
  }
  return placements;
}

/// Placements that tests of larger sizes use: equal and unequal nodes, in order and in turn.
std::vector<std::vector<int>> some_placements() {
  return {{0, 0, 0, 1, 1, 1, 2, 2, 2},
          {0, 1, 2, 0, 1, 2, 0, 1, 2},
          {0, 0, 0, 0, 1, 2, 2},
          {2, 1, 1, 0, 1, 2, 0, 0, 0, 0, 1},
          {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1},
          {0, 1, 2, 3, 4, 5, 6, 7}};
}

char byte_of(std::size_t from, std::size_t to, std::size_t at) {
  return static_cast<char>((from * 31 + to * 7 + at * 13 + 5) % 251);
}

/// An all-to-all of equal blocks; true when every byte is right.
void expect_alltoall(const Partition& nodes, std::size_t bytes, std::size_t row, Delivery delivery) {
  LaneMachine machine(nodes, delivery);
  const std::size_t ranks = nodes.group.size();
  std::vector<std::vector<LaneStep>> steps;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const int r = static_cast<int>(rank);
    machine.provide_areas(r, row);
    machine.memory(r, Area::receive).assign(ranks * bytes, '?');
    for (std::size_t to = 0; to < ranks; ++to) {
      for (std::size_t at = 0; at < bytes; ++at)
        machine.memory(r, Area::send).push_back(byte_of(rank, to, at));
    }
    steps.push_back(alltoall_steps(nodes, machine.plan(r), bytes, row));
  }
  ASSERT_NO_THROW(machine.run(std::move(steps)));
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::vector<char>& got = machine.memory(static_cast<int>(rank), Area::receive);
    for (std::size_t from = 0; from < ranks; ++from) {
      for (std::size_t at = 0; at < bytes; ++at) {
        ASSERT_EQ(got[from * bytes + at], byte_of(from, rank, at))
            << "byte " << at << " of the block from " << from << " to " << rank;
      }
    }
  }
}

TEST(Nodes, AreNumberedByTheirFirstRanks) {
  const Partition nodes = nodes_of_names({"b", "a", "b", "c", "a"});
  EXPECT_THAT(nodes.group, ElementsAre(0, 1, 0, 2, 1));
  EXPECT_THAT(nodes.index, ElementsAre(0, 0, 1, 0, 1));
  EXPECT_THAT(nodes.members, ElementsAre(ElementsAre(0, 2), ElementsAre(1, 4), ElementsAre(3)));
}

TEST(LanePlan, EqualNodesHaveOneMessageForEachLaneAndNode) {
  const LanePlan plan = plan_lanes(nodes_of({0, 0, 1, 1, 2, 2}), 3);
  EXPECT_THAT(plan.served, ElementsAre(1, 5));
  EXPECT_THAT(plan.packed, ElementsAre(0, 4, 1, 5));
  EXPECT_THAT(plan.rows_to, ElementsAre(2, 2));
  ASSERT_EQ(plan.sources.size(), 2U);
  EXPECT_EQ(plan.sources[0].relay, 1);
  EXPECT_EQ(plan.sources[1].relay, 5);
  EXPECT_THAT(plan.landed, ElementsAre(0, 1, 4, 5));
}

TEST(LanePlan, NodesOfOneRankGatherNothing) {
  const LanePlan plan = plan_lanes(nodes_of({0, 1, 2}), 1);
  EXPECT_FALSE(plan.gathers());
  EXPECT_THAT(plan.served, ElementsAre(0, 2));
  for (const Area area : {Area::packed, Area::gathered, Area::outgoing, Area::landing}) {
    EXPECT_EQ(plan.rows_of(area), 0U);
  }
}

TEST(LaneSteps, EveryByteArrivesOnAllPlacementsOfUpToSixRanks) {
  for (int ranks = 1; ranks <= 6; ++ranks) {
    for (const auto& placement : all_placements(ranks)) {
      for (const Delivery delivery : {Delivery::early, Delivery::late}) {
        SCOPED_TRACE(testing::PrintToString(placement));
        expect_alltoall(nodes_of(placement), 11, 2, delivery);  // six chunks, more than slots; the last short
        expect_alltoall(nodes_of(placement), 3, 3, delivery);
      }
    }
  }
}

TEST(LaneSteps, EveryByteArrivesOnLargerMachines) {
  for (const auto& placement : some_placements()) {
    for (const std::size_t bytes : {0, 1, 4, 7, 29}) {
      for (const Delivery delivery : {Delivery::early, Delivery::late}) {
        SCOPED_TRACE(testing::PrintToString(placement) + " " + std::to_string(bytes));
        expect_alltoall(nodes_of(placement), bytes, 4, delivery);
      }
    }
  }
}

/// Counts and places of all blocks, at random, with gaps.
struct RandomCounts {
  std::vector<std::vector<std::size_t>> send, send_at, receive, receive_at;
};
RandomCounts random_counts(std::size_t ranks, unsigned seed) {
  std::minstd_rand random(seed);
  RandomCounts made;
  const std::vector<std::vector<std::size_t>> zeros(ranks, std::vector<std::size_t>(ranks, 0));
  made.send = made.send_at = made.receive = made.receive_at = zeros;
  for (std::size_t from = 0; from < ranks; ++from) {
    for (std::size_t to = 0; to < ranks; ++to) {
      made.send[from][to] = made.receive[to][from] = random() % 3 == 0 ? 0 : random() % 50;
    }
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::size_t out = 0;
    std::size_t in = 0;
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      made.send_at[rank][peer] = out += random() % 5;
      made.receive_at[rank][peer] = in += random() % 5;
      out += made.send[rank][peer];
      in += made.receive[rank][peer];
    }
  }
  return made;
}

TEST(LaneSteps, BlocksOfOwnSizesArrive) {
  for (const auto& placement : some_placements()) {
    for (unsigned seed = 1; seed <= 5; ++seed) {
      const Partition nodes = nodes_of(placement);
      const std::size_t ranks = placement.size();
      const RandomCounts counts = random_counts(ranks, seed);
      LaneMachine machine(nodes, seed % 2 == 0 ? Delivery::early : Delivery::late);
      std::vector<std::vector<LaneStep>> steps;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const int r = static_cast<int>(rank);
        machine.memory(r, Area::send).assign(60 * ranks, 'x');
        machine.memory(r, Area::receive).assign(60 * ranks, '?');
        for (std::size_t to = 0; to < ranks; ++to) {
          for (std::size_t at = 0; at < counts.send[rank][to]; ++at)
            machine.memory(r, Area::send)[counts.send_at[rank][to] + at] = byte_of(rank, to, at);
        }
        steps.push_back(alltoallv_steps(
            nodes, r,
            {counts.send[rank], counts.send_at[rank], counts.receive[rank], counts.receive_at[rank]}));
      }
      ASSERT_NO_THROW(machine.run(std::move(steps)));
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        std::vector<char> expected(60 * ranks, '?');
        for (std::size_t from = 0; from < ranks; ++from) {
          for (std::size_t at = 0; at < counts.receive[rank][from]; ++at)
            expected[counts.receive_at[rank][from] + at] = byte_of(from, rank, at);
        }
        EXPECT_EQ(machine.memory(static_cast<int>(rank), Area::receive), expected);
      }
    }
  }
}

TEST(LaneSteps, WhoIsAloneOnANodeMeetsNobodyThere) {
  const Partition nodes = nodes_of({0, 1, 1});
  const auto meets = [&](int rank, std::size_t own) {
    std::vector<std::size_t> bytes(3, 8), at = {0, 8, 16};
    bytes[static_cast<std::size_t>(rank)] = own;
    const auto steps = alltoallv_steps(nodes, rank, {bytes, at, bytes, at});
    return std::ranges::any_of(
        steps, [](const LaneStep& step) { return std::holds_alternative<NodeExchange>(step); });
  };
  EXPECT_FALSE(meets(0, 0));
  EXPECT_TRUE(meets(0, 8));
  EXPECT_TRUE(meets(1, 0));
}

TEST(LaneSteps, PiecesOfStridedBlocksArriveFromOtherNodes) {
  constexpr std::size_t kPiece = 4;  // more pieces than slots
  for (const auto& placement : some_placements()) {
    for (unsigned seed = 1; seed <= 4; ++seed) {
      const Partition nodes = nodes_of(placement);
      const std::size_t ranks = placement.size();
      const RandomCounts counts = random_counts(ranks, seed);
      LaneMachine machine(nodes, seed % 2 == 0 ? Delivery::early : Delivery::late);
      std::vector<std::vector<LaneStep>> steps;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const int r = static_cast<int>(rank);
        for (const Area area : {Area::send, Area::receive})
          machine.memory(r, area).assign(ranks * LaneMachine::kBlock, '?');
        for (const Area area : {Area::pieces_out, Area::pieces_in})
          machine.memory(r, area).assign(kLaneSlots * ranks * kPiece, 'x');
        for (std::size_t to = 0; to < ranks; ++to) {
          for (std::size_t at = 0; at < counts.send[rank][to]; ++at)
            machine.memory(r, Area::send)[to * LaneMachine::kBlock + at] = byte_of(rank, to, at);
        }
        steps.push_back(strided_steps(nodes, r, counts.send[rank], counts.receive[rank], kPiece,
                                      static_cast<int>((seed + rank) % kLaneSlots)));
      }
      ASSERT_NO_THROW(machine.run(std::move(steps)));
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        std::vector<char> expected(ranks * LaneMachine::kBlock, '?');
        for (std::size_t from = 0; from < ranks; ++from) {
          if (nodes.group[from] == nodes.group[rank]) continue;
          for (std::size_t at = 0; at < counts.receive[rank][from]; ++at)
            expected[from * LaneMachine::kBlock + at] = byte_of(from, rank, at);
        }
        EXPECT_EQ(machine.memory(static_cast<int>(rank), Area::receive), expected);
      }
    }
  }
}

/// Bytes that this engine and the `tapa` plan send from each rank to each other between nodes.
using Traffic = std::map<std::pair<int, int>, std::size_t>;

Traffic traffic_of_steps(const Partition& nodes, std::size_t bytes) {
  Traffic traffic;
  for (int rank = 0; rank < static_cast<int>(nodes.group.size()); ++rank) {
    for (const LaneStep& step : alltoall_steps(nodes, plan_lanes(nodes, rank), bytes, bytes)) {
      if (const auto* start = std::get_if<Start>(&step)) {
        for (const Message& message : start->sends) traffic[{rank, message.peer}] += message.bytes;
      }
    }
  }
  return traffic;
}

Traffic traffic_of_tapa_plan(const Partition& nodes, std::size_t bytes) {
  Topology topology;
  topology.ranks = static_cast<int>(nodes.group.size());
  Level node;
  node.name = "node";
  node.group = nodes.group;
  node.groups = nodes.groups();
  Level world;
  world.name = "world";
  world.group.assign(nodes.group.size(), 0);
  world.groups = 1;
  topology.levels = {node, world};
  topology.nic_level = 1;
  const Counts counts = Counts::uniform(topology.ranks, bytes);
  Traffic traffic;
  for (int rank = 0; rank < topology.ranks; ++rank) {
    const RankPlan plan = plan_rank(topology, counts, parse_choice("tapa:split=node"), rank);
    for (const Step& step : plan.steps) {
      if (step.kind != StepKind::send || nodes.group_of(step.peer) == nodes.group_of(rank)) continue;
      traffic[{rank, step.peer}] += step.bytes;
    }
  }
  return traffic;
}

TEST(LaneSteps, MessagesBetweenNodesAreThoseOfTheTapaPlan) {
  for (const auto& placement : some_placements()) {
    const Partition nodes = nodes_of(placement);
    EXPECT_EQ(traffic_of_steps(nodes, 8), traffic_of_tapa_plan(nodes, 8))
        << testing::PrintToString(placement);
  }
}

TEST(LaneRows, FillTheChunkAndAreFewForShortBlocks) {
  EXPECT_EQ(lane_row_bytes(1000, 8, 8 << 20), 1000U);  // one message
  EXPECT_EQ(lane_row_bytes(std::size_t{1} << 20, 4, std::size_t{16} << 20), std::size_t{1} << 20);
  EXPECT_EQ(lane_row_bytes(std::size_t{8} << 20, 4, std::size_t{16} << 20), std::size_t{2} << 20);  // four
  EXPECT_EQ(lane_row_bytes(std::size_t{1} << 30, 4, std::size_t{16} << 20),
            std::size_t{4} << 20);  // all that fits
  for (std::size_t bytes = 1; bytes < (std::size_t{1} << 34); bytes = bytes * 3 + 1) {
    for (const int ranks : {1, 2, 7, 16, 1000}) {
      const std::size_t row = lane_row_bytes(bytes, ranks, 8 << 20);
      EXPECT_GE(row, 1U);
      EXPECT_LE(row, bytes);
      EXPECT_LE(row * static_cast<std::size_t>(ranks), std::size_t{8} << 20);
    }
  }
}

}  // namespace
}  // namespace tapa::device
