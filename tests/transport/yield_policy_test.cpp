// When a rank gives its core away, with a core that is made up.
#include "transport/yield_policy.hpp"

#include <gtest/gtest.h>

namespace tapa {
namespace {

using Nanoseconds = YieldPolicy::Nanoseconds;

struct Spent {
  Nanoseconds polling{0};
  Nanoseconds away{0};
};

/// Waits of so many polls each, during which the core, when it is given away, comes back after `away`.
Spent wait_often(YieldPolicy policy, int waits, int polls, Nanoseconds away) {
  Spent spent;
  for (int wait = 0; wait < waits; ++wait) {
    for (int idle = 0; idle < polls; ++idle) {
      if (policy.gives_away(idle)) {
        policy.came_back(away);
        spent.away += away;
      } else {
        spent.polling += YieldPolicy::kPoll;
      }
    }
  }
  return spent;
}

// A program that computes all the time keeps the core for a time slice whenever it gets it.
TEST(YieldPolicy, NoMoreIsLostToAnotherProgramThanIsPolled) {
  using std::chrono::microseconds;
  using std::chrono::milliseconds;
  for (const Nanoseconds slice : {Nanoseconds(microseconds(100)), Nanoseconds(milliseconds(1)),
                                  Nanoseconds(milliseconds(4)), Nanoseconds(milliseconds(20))}) {
    for (const int polls : {5, 61, 100, 1000}) {
      const Spent spent = wait_often(YieldPolicy(), 20000, polls, slice);
      EXPECT_LE(spent.away, spent.polling + slice) << slice.count() << " ns, " << polls << " polls";
    }
  }
}

TEST(YieldPolicy, WhoIsAloneGivesTheCoreAwayAfterSomePolls) {
  YieldPolicy policy;
  for (int wait = 0; wait < 100; ++wait) {
    for (int idle = 0; idle < YieldPolicy::kMostPolls; ++idle) ASSERT_FALSE(policy.gives_away(idle));
    ASSERT_TRUE(policy.gives_away(YieldPolicy::kMostPolls));
    policy.came_back(Nanoseconds(200));
  }
}

// Ranks of the job that share a core give it back when they wait: there it is given away soon.
TEST(YieldPolicy, RanksThatShareACorePassItOn) {
  YieldPolicy policy;
  for (int turn = 0; turn < 5; ++turn) policy.came_back(Nanoseconds(5000));
  EXPECT_FALSE(policy.gives_away(YieldPolicy::kLeastPolls - 1));
  for (int turn = 0; turn < 100; ++turn) {
    EXPECT_TRUE(policy.gives_away(YieldPolicy::kLeastPolls));
    policy.came_back(Nanoseconds(5000));
  }
}

}  // namespace
}  // namespace tapa
