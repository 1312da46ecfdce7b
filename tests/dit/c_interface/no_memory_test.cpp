// A rank that finds no memory for one of the small pieces of a start or a wait, each single one in turn: it
// takes what was set aside, and the other one does not wait for it in vain.
#include <gtest/gtest.h>

#include <barrier>
#include <optional>

#include "../../run/refused_memory.hpp"
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

}  // namespace
