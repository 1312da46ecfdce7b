// What ranks of a device communicator tell each other on the host; threads as ranks.
#include "device/agreement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <cstring>
#include <thread>
#include <vector>

#include "device/device_error.hpp"
#include "device/places.hpp"

namespace tapa::device {
namespace {

/// An allgather between threads.
struct Meeting {
  explicit Meeting(int size) : barrier(size), bytes(static_cast<std::size_t>(size) * 1024) {}
  std::barrier<> barrier;
  std::vector<char> bytes;
};
struct Rank {
  Meeting* meeting;
  std::size_t rank;
  std::size_t size;
};

int allgather(void* context, const void* mine, void* all, std::size_t bytes) {
  const Rank& me = *static_cast<Rank*>(context);
  std::memcpy(me.meeting->bytes.data() + me.rank * bytes, mine, bytes);
  me.meeting->barrier.arrive_and_wait();
  std::memcpy(all, me.meeting->bytes.data(), me.size * bytes);
  me.meeting->barrier.arrive_and_wait();
  return 0;
}

template <class Body>
void as_ranks(int size, const Body& body) {
  Meeting meeting(size);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      Rank me{&meeting, static_cast<std::size_t>(rank), static_cast<std::size_t>(size)};
      body(Agreement(rank, size, allgather, &me));
    });
  }
}

TEST(Agreement, GathersValuesInOrder) {
  as_ranks(4, [](const Agreement& agreement) {
    EXPECT_THAT(agreement.gather(agreement.rank() * 10), testing::ElementsAre(0, 10, 20, 30));
  });
}

TEST(Agreement, AFailureOfOneRankIsEverybodys) {
  as_ranks(3, [](const Agreement& agreement) {
    try {
      agreement.together([&] {
        if (agreement.rank() == 1) throw DeviceError(TAPA_DEVICE_ERR_MEMORY, "no memory for 5 bytes");
      });
      ADD_FAILURE() << "rank " << agreement.rank() << " saw no error";
    } catch (const DeviceError& error) {
      EXPECT_STREQ(error.what(), "rank 1: no memory for 5 bytes");
      EXPECT_EQ(error.code(), TAPA_DEVICE_ERR_MEMORY);
    }
  });
}

TEST(Agreement, TheRanksOfANodeGatherAmongThemselves) {
  const std::vector<std::vector<int>> nodes = {{0, 3}, {1, 2, 4}};
  as_ranks(5, [&](const Agreement& all) {
    const std::vector<int>& members = nodes[all.rank() == 0 || all.rank() == 3 ? 0 : 1];
    const Agreement node(all, members);
    EXPECT_EQ(node.size(), static_cast<int>(members.size()));
    EXPECT_EQ(node.name(node.rank()), all.rank());
    EXPECT_EQ(node.gather(all.rank() * 10).size(), members.size());
    const std::vector<int> gathered = node.gather(all.rank());
    EXPECT_EQ(gathered, members);
    EXPECT_THAT(node.gather_everywhere(all.rank()), testing::ElementsAre(0, 1, 2, 3, 4));
  });
}

TEST(Agreement, AFailureInOneNodeIsThatOfAllNodes) {
  as_ranks(4, [](const Agreement& all) {
    const Agreement node(all, all.rank() < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3});
    try {
      node.together([&] {
        if (all.rank() == 3) throw DeviceError(TAPA_DEVICE_ERR_MEMORY, "no memory");
      });
      ADD_FAILURE() << "rank " << all.rank() << " saw no error";
    } catch (const DeviceError& error) {
      EXPECT_STREQ(error.what(), "rank 3: no memory");
    }
  });
}

TEST(Nodes, AreProcessesOfOneLabel) {
  as_ranks(1, [](const Agreement& agreement) {
    const Partition nodes = agree_on_nodes(agreement);
    EXPECT_EQ(nodes.groups(), 1);
  });
  // Threads of one process cannot be ranks of one node.
  as_ranks(2, [](const Agreement& agreement) {
    try {
      (void)agree_on_nodes(agreement);
      ADD_FAILURE() << "no error";
    } catch (const DeviceError& error) {
      EXPECT_STREQ(error.what(), "ranks 0 and 1 are one process, expected one for each rank");
    }
  });
}

TEST(Agreement, AFailedAllgatherIsAnError) {
  const auto fails = [](void*, const void*, void*, std::size_t) { return 42; };
  const Agreement agreement(0, 2, fails, nullptr);
  try {
    agreement.meet();
    ADD_FAILURE() << "no error";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.code(), TAPA_DEVICE_ERR_ALLGATHER);
    EXPECT_THAT(error.what(), testing::HasSubstr("returned 42, expected 0"));
  }
}

}  // namespace
}  // namespace tapa::device
