// What one rank cannot send or receive is an error, and hangs nobody.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "shm_ranks.hpp"
#include "transport/transport.hpp"

namespace tapa {
namespace {

using namespace shm_test;

TEST(ShmBuffers, SizesThatDifferAreAnErrorOfTheReceiverAndHangNobody) {
  Memory memory(2);
  std::string failure;
  const auto run = [&](std::size_t self) {
    const auto buffers = memory.buffers(self);
    Bytes send(100), recv(100);
    const std::vector<ShmBlock> out{{send.data(), 50}, {send.data() + 50, 50}};
    const std::vector<ShmBlock> in{{recv.data(), self == 0 ? 50U : 40U}, {recv.data() + 50, 50}};
    ShmExchange exchange;
    try {
      exchange.begin(*buffers, out, in, nullptr);
      finish(exchange);
    } catch (const TransportError& e) {
      failure = std::to_string(self) + ": " + e.what();
    }
    exchange.begin(*buffers, out, out, nullptr);  // what follows works
    finish(exchange);
  };
  std::thread other([&] { run(1); });
  run(0);
  other.join();
  EXPECT_EQ(failure, "1: message from rank 0 has 50 bytes, expected at most 40");
}

TEST(ShmBuffers, BlocksThatCannotBePackedAreAnErrorOfBothEndsAndHangNobody) {
  for (const std::size_t bytes : {24, 5000, 3 << 20}) {
    const Sizes sizes = [&](std::size_t, std::size_t, int) { return bytes; };
    const std::size_t wrong = in_threads(4, sizes, true, [](Rank& rank) {
      const std::size_t self = rank.buffers().self();
      const char* const expected = self == 0   ? "no such datatype"
                                   : self == 3 ? "rank 0 could not pack its block for this rank"
                                               : "";
      std::string what;
      rank.refuse_to_pack(self == 0);
      try {
        rank.call(0);
      } catch (const TransportError& e) {
        what = e.what();
        EXPECT_EQ(e.mpi_code(), self == 0 ? 3 : 0);
      }
      EXPECT_EQ(what, expected) << self;
      rank.refuse_to_pack(false);
      rank.buffers().release();
      return rank.call(1);
    });
    EXPECT_LE(wrong, 4U) << bytes;
  }
}

TEST(ShmBuffers, ARankThatHasFailedIsAnErrorOfAllAndHangsNobody) {
  for (const std::size_t bytes : {24, 5000, 3 << 20}) {
    const Sizes sizes = [&](std::size_t, std::size_t, int) { return bytes; };
    const std::size_t wrong = in_threads(4, sizes, true, [](Rank& rank) {
      const bool failed = rank.buffers().self() == 2;
      std::string what;
      rank.begin_failed(failed);
      try {
        rank.call(0);
      } catch (const TransportError& e) {
        what = e.what();
        EXPECT_EQ(e.mpi_code(), failed ? 3 : 0);
      }
      EXPECT_EQ(what, failed ? "no such datatype" : "rank 2 could not pack its block for this rank");
      rank.begin_failed(false);
      rank.buffers().release();
      return rank.call(1);
    });
    EXPECT_LE(wrong, 4U) << bytes;
  }
}

TEST(ShmBuffers, WhereOneRankHasNoMemoryForPackedBlocksAllGiveUp) {
  for (const std::size_t bytes : {24, 5000, 3 << 20}) {
    for (const bool overwrites : {false, true}) {
      const Sizes sizes = [&](std::size_t, std::size_t, int) { return bytes; };
      const std::size_t wrong = in_threads(4, sizes, true, [&](Rank& rank) {
        const std::size_t self = rank.buffers().self();
        const bool needed = bytes > (1 << 20);  // the others travel in one part
        std::string what;
        rank.overwrite(overwrites);
        rank.take_rooms(self == 0);
        try {
          rank.call(0);
        } catch (const TransportError& e) {
          what = e.what();
        }
        EXPECT_EQ(what, !needed     ? ""
                        : self == 0 ? "no memory"
                                    : "rank 0 has no memory for its blocks")
            << self;
        EXPECT_EQ(rank.given_up(), needed);
        EXPECT_EQ(rank.can_be_repeated(), needed && !overwrites);
        rank.take_rooms(false);
        rank.buffers().release();
        return rank.call(1);
      });
      EXPECT_LE(wrong, 4U) << bytes;
    }
  }
}

}  // namespace
}  // namespace tapa
