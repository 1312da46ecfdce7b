// Blocks that stay with their senders: read in their memory, or given by them piece by piece.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "shm_ranks.hpp"
#include "transport/transport.hpp"

namespace tapa {
namespace {

using namespace shm_test;

TEST(ShmBuffers, BlocksThatStayWithTheirSenders) {
  for (const std::size_t together : {0U, 2U, 4U}) {  // members that tell all owners at once
    const auto wrong = in_threads(4, skewed, true, [&](Rank& rank) {
      rank.buffers().let_stay(std::vector<pid_t>(4, getpid()), 100);
      rank.buffers().tell_together(rank.buffers().self() < together);
      std::size_t sum = 0;
      for (int number = 0; number < 40; ++number) {
        sum += rank.call(number);
        sum += rank.uniform_call(number, 5000, false);
      }
      return sum;
    });
    EXPECT_EQ(wrong, 0U) << together << " members tell together";
  }
}

/// Receives a block of single bytes from each member, as packed ones or where their rooms are.
class SingleBytes final : public BlockPacker {
 public:
  explicit SingleBytes(bool keeps_rooms) : keeps_(keeps_rooms) {}

  std::size_t call(ShmBuffers& buffers, std::size_t bytes) {
    const std::size_t self = buffers.self();
    std::vector<Bytes> out(buffers.members(), Bytes(bytes));
    in_.assign(buffers.members(), keeps_ ? Bytes{} : Bytes(bytes));
    std::vector<ShmBlock> send;
    for (std::size_t m = 0; m < out.size(); ++m) {
      for (std::size_t i = 0; i < bytes; ++i) out[m][i] = value(self, m, i, 0);
      send.push_back({out[m].data(), m == self ? 0 : bytes, 0});
    }
    std::vector<ShmBlock> recv(out.size(), {nullptr, bytes, 1});
    recv[self] = {};
    ShmExchange exchange;
    exchange.begin(buffers, send, recv, this);
    finish(exchange);
    std::size_t wrong = 0;
    for (std::size_t m = 0; m < in_.size(); ++m) {
      if (m == self) continue;
      const Bytes& came = keeps_ ? room_ : in_[m];
      for (std::size_t i = 0; i < bytes; ++i) wrong += came[i] == value(m, self, i, 0) ? 0U : 1U;
    }
    return wrong;
  }
  [[nodiscard]] std::size_t longest_room() const { return longest_; }

  void gather(std::size_t, std::size_t, std::size_t, std::byte*) override {}
  void scatter(std::size_t member, std::size_t begin, std::size_t bytes, const std::byte* from) override {
    if (!keeps_) std::memcpy(in_[member].data() + begin, from, bytes);
  }
  void copy(std::size_t) override {}
  std::byte* room(std::size_t, bool, std::size_t bytes) override {
    longest_ = std::max(longest_, bytes);
    room_.resize(bytes);
    return room_.data();
  }
  [[nodiscard]] bool keeps_rooms() const override { return keeps_; }
  void release_rooms() override {}

 private:
  bool keeps_;
  std::size_t longest_ = 0;
  std::vector<Bytes> in_;
  Bytes room_;
};

// Whoever unpacks needs memory for a part alone, also of single bytes.
TEST(ShmBuffers, LongBlocksComeWholeWhereTheyStayInTheirRooms) {
  constexpr std::size_t bytes = (std::size_t{1} << 20) + 1;
  for (const bool keeps : {false, true}) {
    Memory memory(2);
    std::array<std::size_t, 2> wrong{};
    std::array<std::size_t, 2> longest{};
    std::vector<std::thread> threads;
    for (std::size_t self = 0; self < 2; ++self) {
      threads.emplace_back([&, self] {
        const auto buffers = memory.buffers(self);
        buffers->let_stay({getpid(), getpid()}, 100);
        SingleBytes packer(keeps);
        wrong[self] = packer.call(*buffers, bytes);
        longest[self] = packer.longest_room();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (std::size_t self = 0; self < 2; ++self) {
      EXPECT_EQ(wrong[self], 0U);
      if (keeps) {
        EXPECT_EQ(longest[self], bytes);
      } else {
        EXPECT_LT(longest[self], bytes);
      }
    }
  }
}

// Members whose memory nobody may read, as no such process exists: owners give readers what they ask for.
TEST(ShmBuffers, BlocksThatTheKernelDoesNotShow) {
  constexpr pid_t nobody = 0x7ffffff0;
  for (const std::size_t shown : {0U, 2U}) {
    const auto wrong = in_threads(4, skewed, true, [&](Rank& rank) {
      std::vector<pid_t> pids(4, nobody);
      std::fill_n(pids.begin(), shown, getpid());
      rank.buffers().tell_together(rank.buffers().self() % 2 == 0);
      std::size_t sum = 0;
      for (int number = 0; number < 20; ++number) {
        rank.buffers().let_stay(pids, 100);  // again: who was asked for pieces lets no blocks stay
        sum += rank.call(number);
        rank.buffers().let_stay(pids, 100);
        sum += rank.uniform_call(number, 50'000, false);
      }
      return sum;
    });
    EXPECT_EQ(wrong, 0U) << shown << " members are shown";
  }
}

// The kernel lets some members neither read nor write what others have; these read by themselves what is
// theirs.
TEST(ShmBuffers, OwnersThatMayNotWrite) {
  constexpr pid_t nobody = 0x7ffffff0;
  const auto wrong = in_threads(4, skewed, true, [&](Rank& rank) {
    const pid_t seen = rank.buffers().self() % 2 == 0 ? getpid() : nobody;
    rank.buffers().tell_together(true);
    std::size_t sum = 0;
    for (int number = 0; number < 40; ++number) {
      rank.buffers().let_stay(std::vector<pid_t>(4, seen), 100);
      sum += rank.call(number);
    }
    return sum;
  });
  EXPECT_EQ(wrong, 0U);
}

TEST(ShmBuffers, LongEqualBlocksOfManyMembersAreMovedByBothEnds) {
  const auto wrong = in_threads(8, no_sizes, false, [](Rank& rank) {
    rank.buffers().let_stay(std::vector<pid_t>(8, getpid()), 1000);
    rank.buffers().tell_together(true);
    std::size_t sum = 0;
    for (int number = 0; number < 8; ++number) sum += rank.uniform_call(number, 100'000, false);
    return sum;
  });
  EXPECT_EQ(wrong, 0U);
}

// One member has all to read, the other waits, and the reverse.
std::size_t one_sided(std::size_t src, std::size_t, int call) {
  return src == static_cast<std::size_t>(call) % 2 ? 700'000 : 0;
}

// As real processes, whose memory the kernel may or may not show.
TEST(ShmBuffers, ProcessesReadEachOther) {
  Memory memory(2);
  auto* const pids = static_cast<std::atomic<pid_t>*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const auto run = [&](std::size_t self) {
    Rank rank(memory.buffers(self), one_sided, false);
    pids[self] = getpid();
    while (pids[1 - self] == 0) std::this_thread::yield();
    rank.buffers().let_stay({pids[0], pids[1]}, 1000);
    std::size_t wrong = 0;
    for (int number = 0; number < 20; ++number) wrong += rank.uniform_call(number, 300'000, false);
    for (const bool together : {false, true}) {  // then owners write, too
      rank.buffers().tell_together(together);
      for (int number = 0; number < 20; ++number) wrong += rank.call(number);
    }
    return wrong;
  };
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  const auto safely = [&](std::size_t self) -> int {
    try {
      return run(self) == 0 ? 0 : 1;
    } catch (const TransportError&) {
      return 2;  // the kernel refuses
    }
  };
  if (child == 0) _exit(safely(1));
  const int own = safely(0);
  int status = 0;
  TEMP_FAILURE_RETRY(waitpid(child, &status, 0));
  if (own == 2) GTEST_SKIP() << "cross-memory attach is refused here";
  EXPECT_EQ(own, 0);
  EXPECT_EQ(status, 0);
  munmap(pids, 4096);
}

// Who sleeps until its blocks are read must be rung by the last reader, not only by those who publish.
TEST(ShmBuffers, ReadersRingWhoWaitsForThem) {
  Memory memory(2);
  const auto owner = memory.buffers(0);
  const auto reader = memory.buffers(1);
  for (ShmBuffers* buffers : {owner.get(), reader.get()}) {
    buffers->expect_sleepers(true);
    buffers->publish();
  }
  memory.bell(0).sleeping = 1;
  const std::uint32_t before = memory.bell(0).rings;
  EXPECT_FALSE(owner->was_read(1, 1));
  reader->tell_read(0);
  EXPECT_TRUE(owner->was_read(1, 1));
  EXPECT_EQ(memory.bell(0).rings, before + 1);
}

// Rung for a piece that somebody asks for, a rank looks once and sleeps again.
TEST(ShmBuffers, WhoMaySleepGivesPiecesWhenItIsRung) {
  constexpr std::size_t bytes = 200'000;
  Memory memory(2);
  std::array<std::unique_ptr<ShmBuffers>, 2> buffers{memory.buffers(0), memory.buffers(1)};
  std::array<ShmExchange, 2> exchanges;
  std::array<Bytes, 2> sent, got;
  for (std::size_t m = 0; m < 2; ++m) {
    buffers[m]->expect_sleepers(true);
    buffers[m]->let_stay(std::vector<pid_t>(2, 0x7ffffff0), 100);  // nobody's memory can be read
    sent[m].resize(2 * bytes);
    for (std::size_t i = 0; i < 2 * bytes; ++i) sent[m][i] = value(m, i / bytes, i % bytes, 0);
    got[m].resize(2 * bytes);
    exchanges[m].begin(*buffers[m], sent[m].data(), got[m].data(), bytes);
  }
  const std::size_t pieces = bytes / buffers[0]->piece_bytes() + 1;
  std::array<bool, 2> done{};
  std::size_t looks = 0;
  for (; (!done[0] || !done[1]) && looks < 1000; ++looks) {
    for (std::size_t m = 0; m < 2; ++m) done[m] = done[m] || exchanges[m].advance();
  }
  EXPECT_LE(looks, 2 * pieces + 2);
  for (std::size_t m = 0; m < 2; ++m)
    EXPECT_TRUE(std::equal(got[m].end() - bytes, got[m].end(), &sent[1][m * bytes])) << m;
}

}  // namespace
}  // namespace tapa
