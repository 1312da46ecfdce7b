// One exchange for which several threads wait: all are told the same.
#include "c_interface/shared_request.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "exchange/local/local_ranks.hpp"

namespace dit::c_interface {
namespace {

/// A byte for each of two ranks; more for rank 0 where ranks are to disagree.
struct Bytes {
  std::array<char, 16> sent{}, received{};
  std::array<dit_block, 2> send, recv;
  dit_exchange_call call{};

  explicit Bytes(std::size_t first) : send{{{0, first}, {8, 1}}}, recv{{{0, 1}, {8, 1}}} {
    call.send = sent.data();
    call.recv = received.data();
    call.send_blocks = send.data();
    call.recv_blocks = recv.data();
  }
};

/// What two threads that wait on rank 0 are told, a byte too many sent to it or not.
std::vector<std::string> told_to_two(bool disagree) {
  std::vector<std::string> words(2, "nothing");
  run_local_ranks({2}, [&](ExchangeContext& context) {
    Bytes bytes(disagree && context.rank() == 1 ? 2 : 1);
    SharedRequest request(2);
    request.set(context.start(bytes.call));
    const auto wait = [&](std::size_t member) {
      std::string told;
      try {
        request.wait();
        for (int asked = 0; asked < 1000; ++asked)
          EXPECT_TRUE(request.test());  // whatever the other thread asks
      } catch (const ExchangeError& error) {
        told = error.what();
      }
      EXPECT_EQ(request.lost(), disagree);
      if (context.rank() == 0) words[member] = told;
    };
    {
      const std::jthread other(wait, 1);
      wait(0);
    }
    request.drop({});
    request.drop({});
  });
  return words;
}

TEST(SharedRequest, IsDoneForAll) {
  for (int again = 0; again < 20; ++again) {
    EXPECT_EQ(told_to_two(false), std::vector<std::string>(2));
  }
}

TEST(SharedRequest, AFailureIsToldToAll) {
  const std::vector<std::string> words = told_to_two(true);
  EXPECT_NE(words[0], "");
  EXPECT_EQ(words[0], words[1]);
}

// The last one that drops it gives it up; until then the others may wait.
TEST(SharedRequest, IsGivenUpByTheLast) {
  std::atomic<bool> go{false};
  run_local_ranks({2}, [&](ExchangeContext& context) {
    Bytes bytes(1);
    if (context.rank() == 1) {
      while (!go) std::this_thread::yield();
      return context.exchange(bytes.call);
    }
    const auto kept = std::make_shared<int>(7);
    SharedRequest request(2);
    request.set(context.start(bytes.call));
    request.drop({{}, {}, nullptr, kept});
    EXPECT_FALSE(request.test());
    EXPECT_EQ(kept.use_count(), 2);
    go = true;
    request.wait();
    EXPECT_EQ(kept.use_count(), 1);
    request.drop({});
  });
}

}  // namespace
}  // namespace dit::c_interface
