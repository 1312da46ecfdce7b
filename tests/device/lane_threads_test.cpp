// All-to-alls between nodes with threads as ranks: the protocol of each node, pipes between nodes, several
// chunks under way, several calls one after the other.
#include "lane_threads.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "small_tuning.hpp"
#include "thread_messenger.hpp"

namespace tapa::device {
namespace {

std::byte content(std::size_t from, std::size_t to, unsigned call, std::size_t at) {
  return static_cast<std::byte>(from * 31 + to * 7 + call * 13 + at * 3 + (at >> 8));
}

/// The ranks of a machine.
struct World {
  World(const Partition& partition, std::size_t row, int delays) : nodes(partition) {
    for (const std::vector<int>& members : nodes.members) {
      machines.push_back(std::make_unique<HostMachine>(static_cast<int>(members.size()), small_tuning()));
    }
    const auto ranks = static_cast<int>(nodes.group.size());
    network.delay = delays;
    for (int rank = 0; rank < ranks; ++rank) {
      pipes.push_back(std::make_unique<HostPipes>(rank, ranks, 128, HostPipes::Style{1, 1, delays * 10, 0},
                                                  std::make_unique<ThreadMessenger>(network, rank)));
      HostMachine& machine = *machines[static_cast<std::size_t>(nodes.group_of(rank))];
      lanes.push_back(std::make_unique<LaneThreads>(nodes, rank, machine, *pipes.back(), row));
    }
  }
  Partition nodes;
  Network network;
  std::vector<std::unique_ptr<HostMachine>> machines;
  std::vector<std::unique_ptr<HostPipes>> pipes;
  std::vector<std::unique_ptr<LaneThreads>> lanes;
};

/// One rank's calls; the number of wrong bytes.
std::size_t wrong_in_calls(World& world, std::size_t rank, std::size_t bytes, std::size_t row) {
  LaneThreads& me = *world.lanes[rank];
  const std::size_t ranks = world.lanes.size();
  const auto steps = alltoall_steps(world.nodes, me.plan(), bytes, row);
  me.memory(Area::send).resize(ranks * bytes);
  std::size_t wrong = 0;
  for (unsigned call = 0; call < 3; ++call) {
    me.memory(Area::receive).assign(ranks * bytes, std::byte{0xee});
    for (std::size_t to = 0; to < ranks; ++to) {
      for (std::size_t at = 0; at < bytes; ++at)
        me.memory(Area::send)[to * bytes + at] = content(rank, to, call, at);
    }
    me.run(steps, call);
    for (std::size_t from = 0; from < ranks; ++from) {
      for (std::size_t at = 0; at < bytes; ++at)
        wrong += me.memory(Area::receive)[from * bytes + at] != content(from, rank, call, at) ? 1 : 0;
    }
  }
  return wrong;
}

void expect_right(const std::vector<std::string>& names, std::size_t bytes, std::size_t row, int delays) {
  World world(nodes_of_names(names), row, delays);
  std::vector<std::size_t> wrong(names.size(), 0);
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < names.size(); ++rank) {
      threads.emplace_back([&, rank] { wrong[rank] = wrong_in_calls(world, rank, bytes, row); });
    }
  }
  EXPECT_EQ(wrong, std::vector<std::size_t>(names.size(), 0)) << bytes << " bytes in rows of " << row;
}

TEST(LaneThreads, NodesOfOneRank) {
  expect_right({"a", "b"}, 3000, 3000, 0);
  expect_right({"a", "b", "c"}, 700, 700, 2);
}
TEST(LaneThreads, EqualNodes) {
  expect_right({"a", "a", "b", "b"}, 900, 200, 0);  // five chunks, more than can be under way
  expect_right({"a", "b", "a", "b"}, 50, 50, 3);
  expect_right({"a", "a", "b", "b", "c", "c"}, 300, 128, 0);
}
TEST(LaneThreads, UnequalNodes) {
  expect_right({"a", "b", "b", "b"}, 700, 150, 0);
  expect_right({"a", "a", "b", "c", "c"}, 333, 100, 2);
}

}  // namespace
}  // namespace tapa::device
