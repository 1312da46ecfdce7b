// What ranks of a device communicator tell each other on the host; threads as ranks.
#include "device/agreement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "agreement_threads.hpp"
#include "device/device_error.hpp"
#include "device/places.hpp"

namespace tapa::device {
namespace {

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

/// A rank leaves out steps that the others come to.
TEST(Agreement, AFailureBetweenStepsIsThatOfAll) {
  as_ranks(3, [](const Agreement& agreement) {
    try {
      agreement.together([&] {
        (void)agreement.gather(1.0);
        if (agreement.rank() == 1) throw std::bad_alloc();
        (void)agreement.gather(agreement.rank());
        agreement.together([] {});
        agreement.meet();
      });
      ADD_FAILURE() << "rank " << agreement.rank() << " saw no error";
    } catch (const DeviceError& error) {
      EXPECT_STREQ(error.what(), "rank 1: out of memory");
      EXPECT_EQ(error.code(), TAPA_DEVICE_ERR_MEMORY);
    }
    EXPECT_THAT(agreement.gather(agreement.rank()), testing::ElementsAre(0, 1, 2));
  });
}

TEST(Agreement, AFailureOfAllHasNoName) {
  as_ranks(2, [](const Agreement& agreement) {
    try {
      agreement.together([] { throw DeviceError(TAPA_DEVICE_ERR_ARG, "ranks differ"); });
      ADD_FAILURE() << "no error";
    } catch (const DeviceError& error) {
      EXPECT_STREQ(error.what(), "ranks differ");
    }
  });
}

/// One of several ways fails: the ranks try the next. Who fails before it ends all.
TEST(Agreement, AWayThatFailsEndsNothingElse) {
  as_ranks(3, [](const Agreement& agreement) {
    const auto fails_on = [&](int rank) {
      return agreement.failure_of([&] {
        if (agreement.rank() == rank) throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED, "no such way");
        agreement.meet();
      });
    };
    const auto failed = fails_on(2);
    EXPECT_STREQ(failed ? failed->what() : "nothing", "rank 2: no such way");
    EXPECT_FALSE(fails_on(-1));
    const auto too_early = [&] {
      agreement.together([&] {
        if (agreement.rank() == 0) throw std::bad_alloc();
        (void)fails_on(-1);
        ADD_FAILURE() << "rank " << agreement.rank() << " went on";
      });
    };
    EXPECT_THROW(too_early(), CommonError);
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
