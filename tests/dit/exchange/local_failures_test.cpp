// The local plugin when ranks disagree, do not come, or leave: everybody hears of it, and nothing hangs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <mutex>
#include <thread>

#include "exchange/exchange.hpp"
#include "exchange/local/local_ranks.hpp"

namespace dit {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

/// What each rank was told.
class Words {
 public:
  explicit Words(int ranks) : words_(static_cast<std::size_t>(ranks)) {}
  // Runs an action and notes the error it ends with.
  void note(int rank, const std::function<void()>& action, dit_status expected) {
    try {
      action();
    } catch (const ExchangeError& error) {
      EXPECT_EQ(error.status(), expected) << error.what();
      const std::scoped_lock lock(mutex_);
      words_[static_cast<std::size_t>(rank)] = error.what();
    }
  }
  [[nodiscard]] const std::vector<std::string>& all() const { return words_; }
  const std::string& operator[](std::size_t rank) const { return words_[rank]; }

 private:
  std::mutex mutex_;
  std::vector<std::string> words_;
};

/// A byte for each peer, but for what a test changes.
struct Bytes {
  explicit Bytes(const ExchangeContext& context, const char* label = nullptr) {
    for (int peer = 0; peer < context.size(); ++peer) {
      send_blocks.push_back({static_cast<std::size_t>(8 * peer), 1});
      recv_blocks.push_back({static_cast<std::size_t>(8 * peer), 1});
    }
    sent.resize(8 * send_blocks.size());
    received.resize(sent.size());
    call.send = sent.data();
    call.recv = received.data();
    call.send_blocks = send_blocks.data();
    call.recv_blocks = recv_blocks.data();
    call.label = label;
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  std::vector<dit_block> send_blocks, recv_blocks;
  std::vector<char> sent, received;
  dit_exchange_call call{};
};

TEST(LocalFailures, SizesThatDoNotMatchAreToldToBoth) {
  Words words(3);
  run_local_ranks({3}, [&](ExchangeContext& context) {
    Bytes bytes(context, "v");
    if (context.rank() == 2) bytes.send_blocks[0].bytes = 5;
    words.note(
        context.rank(), [&] { context.exchange(bytes.call); }, DIT_ERROR_COMMUNICATION);
    Bytes next(context);  // the others go on
    context.exchange(next.call);
  });
  const std::string expected =
      "exchange plugin local: exchange 1 ('v'): rank 2 sends 5 bytes to rank 0, which expects 1";
  EXPECT_THAT(words.all(), ElementsAre(expected, "", expected));
}

TEST(LocalFailures, CallsInAnotherOrderShowInTheLabels) {
  Words words(2);
  run_local_ranks({2}, [&](ExchangeContext& context) {
    Bytes bytes(context, context.rank() == 0 ? "q" : "k");
    if (context.rank() == 0) bytes.send_blocks[1].bytes = 2;
    words.note(
        context.rank(), [&] { context.exchange(bytes.call); }, DIT_ERROR_COMMUNICATION);
  });
  EXPECT_EQ(words[1],
            "exchange plugin local: exchange 1 ('q'): rank 0 sends 2 bytes to rank 1, which expects 1 in "
            "exchange 1 "
            "('k')");
}

TEST(LocalFailures, TimeoutNamesWhoIsMissing) {
  Words words(3);
  run_local_ranks({3, 0, 0, 0.5}, [&](ExchangeContext& context) {
    context.barrier();
    if (context.rank() == 0) {
      Bytes bytes(context, "k of block 3");
      words.note(
          0, [&] { context.exchange(bytes.call); }, DIT_ERROR_TIMEOUT);
      return;
    }
    std::this_thread::sleep_for(1500ms);
    words.note(
        context.rank(), [&] { context.barrier(); }, DIT_ERROR_COMMUNICATION);
  });
  EXPECT_EQ(
      words[0],
      "exchange plugin local: exchange 2 ('k of block 3'): rank 0 waited 0.500 s for rank 1 (has started 1 "
      "exchange), rank 2 (has started 1 exchange)");
  EXPECT_THAT(words[1],
              HasSubstr("rank 0 gave up: exchange 2 ('k of block 3'): rank 0 waited 0.500 s for rank 1"));
  EXPECT_EQ(words[2], words[1]);
}

TEST(LocalFailures, TimeoutOfASlowNic) {
  Words words(2);
  run_local_ranks({2, 1, 0.1, 0.5}, [&](ExchangeContext& context) {
    Bytes bytes(context);
    words.note(
        context.rank(), [&] { context.exchange(bytes.call); }, DIT_ERROR_TIMEOUT);
  });
  EXPECT_THAT(words[0], HasSubstr("exchange 1: rank 0 waited 0.500 s; its data needs 9."));
}

TEST(LocalFailures, ARankThatLeavesEndsTheWaitsOfOthers) {
  Words words(3);
  try {
    run_local_ranks({3}, [&](ExchangeContext& context) {
      context.barrier();
      if (context.rank() == 1) throw std::out_of_range("no such block");
      words.note(
          context.rank(), [&] { context.barrier(); }, DIT_ERROR_COMMUNICATION);
      words.note(
          context.rank(), [&] { context.barrier(); }, DIT_ERROR_COMMUNICATION);  // nothing works any more
    });
    FAIL() << "the exception was lost";
  } catch (const std::out_of_range& error) {
    EXPECT_STREQ(error.what(), "no such block");
  }
  EXPECT_THAT(words[0], HasSubstr("rank 1 has left: no such block"));
  EXPECT_THAT(words[2], HasSubstr("rank 1 has left: no such block"));
}

TEST(LocalFailures, ARankThatLeavesEndsWaitsInOtherGroups) {
  Words words(4);
  EXPECT_THROW(run_local_ranks({4},
                               [&](ExchangeContext& context) {
                                 const auto half = context.split(context.rank() / 2, 0);
                                 if (context.rank() == 3) throw std::runtime_error("gone");
                                 words.note(
                                     context.rank(),
                                     [&] {
                                       for (int i = 0; i < 1000000; ++i) half->barrier();
                                     },
                                     DIT_ERROR_COMMUNICATION);
                               }),
               std::runtime_error);
  for (const std::size_t rank : {0u, 1u, 2u})
    EXPECT_THAT(words[rank], HasSubstr("rank 3 has left: gone")) << rank;
}

TEST(LocalFailures, TheFirstExceptionIsTheOneThatIsRethrown) {
  try {
    run_local_ranks({4}, [&](ExchangeContext& context) {
      if (context.rank() == 2) throw std::logic_error("the cause");
      context.barrier();  // throws for all others, and leaves
    });
    FAIL();
  } catch (const std::logic_error& error) {
    EXPECT_STREQ(error.what(), "the cause");
  }
}

TEST(LocalFailures, CloseWaitsForAllThatIsUnderWay) {
  Words words(2);
  run_local_ranks({2}, [&](ExchangeContext& context) {
    Bytes wrong(context), right(context);
    if (context.rank() == 0) wrong.send_blocks[1].bytes = 2;
    right.sent.assign(right.sent.size(), 'x');
    const dit_exchange_plugin& table = context.plugin().table();
    dit_request *first = nullptr, *second = nullptr;
    wrong.call.struct_size = right.call.struct_size = sizeof(dit_exchange_call);
    ASSERT_EQ(table.start(context.handle(), &wrong.call, &first), DIT_OK);
    if (context.rank() == 1) std::this_thread::sleep_for(50ms);
    ASSERT_EQ(table.start(context.handle(), &right.call, &second), DIT_OK);
    words.note(
        context.rank(), [&] { context.close(); }, DIT_ERROR_COMMUNICATION);
    EXPECT_EQ(right.received[0], 'x');
    EXPECT_EQ(right.received[8], 'x');
  });
  EXPECT_EQ(words[0], "exchange plugin local: exchange 1: rank 0 sends 2 bytes to rank 1, which expects 1");
  EXPECT_EQ(words[1], words[0]);
}

// Unwinding with an exchange under way: the request's destructor must not hang.
TEST(LocalFailures, LeavingWithAnExchangeUnderWay) {
  EXPECT_THROW(run_local_ranks({2},
                               [&](ExchangeContext& context) {
                                 Bytes bytes(context);
                                 if (context.rank() == 0) throw std::domain_error("early");
                                 const ExchangeRequest request = context.start(bytes.call);
                               }),
               std::domain_error);
}

}  // namespace
}  // namespace dit
