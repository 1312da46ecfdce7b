// A rank that finds no memory for one of the small pieces of a start or a wait, each single one in turn: it
// takes what was set aside, and the other one does not wait for it in vain.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "../../run/refused_memory.hpp"
#include "exchange/exchange.hpp"
#include "exchange/local/local_ranks.hpp"
#include "keys_of_ranks.hpp"

namespace {

thread_local bool is_poor = false;

TEST(DitNoMemory, KeepsNobodyWaiting) {
  has_reserve = true;
  is_spared = [] { return !is_poor; };
  std::barrier both(2);
  bool refused = true;
  int pieces = 0;
  dit_test::run_ranks("local", 2, 10, [&](dit_session* session, int rank) {
    dit_test::Keys keys(session, 2);
    for (int piece = 0; refused && !testing::Test::HasFailure(); ++piece) {
      both.arrive_and_wait();
      is_poor = rank == 1;
      std::optional<Refusing> refusing;
      if (is_poor) refusing.emplace(1, piece, 1);
      const dit_status started = keys.start();
      const dit_status ended = dit_transfer_wait(keys.transfer);
      if (is_poor) {
        refused = Refusing::some();
        pieces = piece;
      }
      refusing.reset();
      is_poor = false;
      EXPECT_EQ(started, DIT_OK) << piece << ": " << dit_last_error();
      EXPECT_EQ(ended, DIT_OK) << piece << ": " << dit_last_error();
      both.arrive_and_wait();
    }
    (void)dit_transfer_free(&keys.transfer);
  });
  EXPECT_GT(pieces, 3);
  has_reserve = false;
}

TEST(DitNoMemory, FreesATransfer) {
  is_spared = [] { return !is_poor; };
  dit_test::run_ranks("local", 2, 10, [&](dit_session* session, int rank) {
    dit_test::Keys keys(session, 2);
    EXPECT_EQ(keys.start(), DIT_OK);
    EXPECT_EQ(dit_transfer_wait(keys.transfer), DIT_OK);
    is_poor = rank == 1;
    std::optional<Refusing> refusing;
    if (is_poor) refusing.emplace(1);
    const dit_status freed = dit_transfer_free(&keys.transfer);
    refusing.reset();
    is_poor = false;
    EXPECT_EQ(freed, DIT_OK) << dit_last_error();
  });
}

/// While it lives this thread has no memory at all.
class Poor {
 public:
  Poor() { is_poor = true; }
  ~Poor() { is_poor = false; }
  Poor(const Poor&) = delete;
  Poor& operator=(const Poor&) = delete;

 private:
  Refusing refusing_{1};
};

/// A byte for each of two ranks.
struct Bytes {
  explicit Bytes(int rank) : sent{static_cast<char>(rank), static_cast<char>(rank)} {
    call.send = sent.data();
    call.recv = received.data();
    call.send_blocks = call.recv_blocks = blocks.data();
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  std::array<char, 2> sent, received{-1, -1};
  std::array<dit_block, 2> blocks{dit_block{0, 1}, dit_block{1, 1}};
  dit_exchange_call call{};
};

/// An exchange for whose other rank this one does not wait any longer: when it is destroyed, or given up.
/// What it uses lives until that has come, and nothing of it needs memory.
TEST(DitNoMemory, GivesAnExchangeUp) {
  is_spared = [] { return !is_poor; };
  for (const bool destroyed : {false, true}) {
    std::atomic<bool> go{false};
    std::vector<dit_local_member> members = dit::make_local_group({2});
    std::jthread late([&] {
      dit::ExchangeContext context(dit::ExchangePlugin::load("local"), {&members[1], 30, ""});
      while (!go) std::this_thread::yield();
      Bytes bytes(1);
      context.exchange(bytes.call);
      EXPECT_EQ(bytes.received[0], 0);
    });
    dit::ExchangeContext context(dit::ExchangePlugin::load("local"), {&members[0], 0.05, ""});
    std::weak_ptr<Bytes> watched;
    {
      auto bytes = std::make_shared<Bytes>(0);
      watched = bytes;
      dit::ExchangeRequest request = context.start(bytes->call, bytes);
      bytes.reset();  // the exchange's alone
      const Poor poor;
      if (!destroyed) {
        EXPECT_NO_THROW(request.cancel());
      }
      EXPECT_EQ(request.active(), destroyed);
    }
    const std::shared_ptr<Bytes> bytes = watched.lock();
    EXPECT_NE(bytes, nullptr) << "freed while the other rank may use it";
    go = true;
    late.join();
    context.close();
    EXPECT_EQ(watched.use_count(), 1) << "it is done";
    if (bytes != nullptr) {
      EXPECT_EQ(bytes->received[1], 1);
    }
  }
}

/// A transfer whose other rank is late, likewise.
TEST(DitNoMemory, GivesATransferUp) {
  is_spared = [] { return !is_poor; };
  for (const bool goes_on : {false, true}) {
    std::barrier both(2);
    int released = 0;
    dit_test::run_ranks("local", 2, 10, [&](dit_session* session, int rank) {
      dit_test::Keys keys(session, 2);
      both.arrive_and_wait();
      if (rank == 0) {
        EXPECT_EQ(keys.start(), DIT_OK) << dit_last_error();
        const auto count = [](void* user) { ++*static_cast<int*>(user); };
        const dit_status given_up = [&] {
          const Poor poor;
          return dit_transfer_cancel(keys.transfer, count, &released);
        }();
        EXPECT_EQ(given_up, DIT_ERROR_MEMORY) << "nothing was done";
        EXPECT_EQ(released, 0);
        if (!goes_on) {
          EXPECT_EQ(dit_transfer_cancel(keys.transfer, count, &released), DIT_OK);
        }
        EXPECT_EQ(released, 0);
      }
      both.arrive_and_wait();
      if (rank == 1) {
        EXPECT_EQ(keys.start(), DIT_OK);
      }
      if (rank == 1 || goes_on) {
        EXPECT_EQ(dit_transfer_wait(keys.transfer), DIT_OK) << dit_last_error();
      }
      both.arrive_and_wait();
      (void)dit_transfer_free(&keys.transfer);
    });
    EXPECT_EQ(released, goes_on ? 0 : 1);
  }
}

}  // namespace
