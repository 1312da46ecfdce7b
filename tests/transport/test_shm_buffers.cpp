// All-to-alls over shared buffers: ranks as threads of one process (for the thread sanitizer, which sees that
// they share addresses), and as processes that read each other's memory.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <thread>
#include <utility>

#include "run/shm_exchange.hpp"
#include "transport/shm_segment.hpp"
#include "transport/transport.hpp"

namespace tapa {
namespace {

using Bytes = std::vector<std::byte>;

std::byte value(std::size_t src, std::size_t dst, std::size_t at, int call) {
  return static_cast<std::byte>((src * 131 + dst * 31 + at * 7 + static_cast<std::size_t>(call) * 13) & 0xFF);
}

/// Regions that exchanges use together, one behind the other, after others have made so many rounds.
struct Region {
  std::size_t first = 0;
  std::size_t members = 0;
  std::uint64_t rounds = 0;
};

/// Memory for the regions and doorbells of some ranks.
class Memory {
 public:
  explicit Memory(std::size_t units) : units_(units) {
    bytes_ = units * (ShmBuffers::region_bytes() + sizeof(Doorbell) + 4096);
    void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    base_ = static_cast<std::byte*>(p);
  }
  ~Memory() { munmap(base_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  Doorbell& bell(std::size_t unit) {
    return reinterpret_cast<Doorbell*>(base_ + units_ * ShmBuffers::region_bytes())[unit];
  }

  std::byte* region(std::size_t unit) { return base_ + unit * ShmBuffers::region_bytes(); }

  std::unique_ptr<ShmBuffers> buffers(std::size_t self) { return buffers(self, {0, units_, 0}); }
  std::unique_ptr<ShmBuffers> buffers(std::size_t self, const Region& region) {
    std::vector<std::byte*> regions;
    std::vector<Doorbell*> bells;
    for (std::size_t unit = region.first; unit < region.first + region.members; ++unit) {
      regions.push_back(this->region(unit));
      bells.push_back(&bell(unit));
    }
    return std::make_unique<ShmBuffers>(self, std::move(regions), std::move(bells), region.rounds,
                                        region.first);
  }

 private:
  std::size_t units_;
  std::size_t bytes_ = 0;
  std::byte* base_ = nullptr;
};

/// Sizes of blocks by source, destination and call.
using Sizes = std::function<std::size_t(std::size_t, std::size_t, int)>;

void finish(ShmExchange& exchange) {
  while (!exchange.advance()) std::this_thread::yield();
}

/// What parts of a packed block must be a multiple of, on either side; 0: it is not divided.
std::size_t unit_of(std::size_t bytes, std::size_t member, bool sent) {
  return member % 4 == 3 ? 0 : std::gcd(bytes, sent ? std::size_t{24} : std::size_t{20});
}

/// Blocks of one rank in a call, each in memory of its own; every third is not "in one piece".
class Rank final : public BlockPacker {
 public:
  Rank(std::unique_ptr<ShmBuffers> buffers, Sizes sizes, bool packed)
      : buffers_(std::move(buffers)), sizes_(std::move(sizes)), packed_(packed) {}

  /// Blocks from others may be so many bytes longer than those that are sent.
  void expect_more(std::size_t bytes) { more_ = bytes; }

  /// Whether both ends know the sizes of blocks, so that calls may go by pairs.
  void know_sizes(bool known) { known_ = known; }

  /// Whether no block can be packed from now on.
  void refuse_to_pack(bool refuses) { refuses_ = refuses; }

  /// Whether this rank has failed before a call begins, from now on: it packs and unpacks nothing.
  void begin_failed(bool failed) { failed_ = failed; }

  /// Whether rank 1 overwrites what it sends.
  void overwrite(bool overwrites) { overwrites_ = overwrites; }

  /// Whether memory is taken before a call, and refused.
  void take_rooms(bool refused) { rooms_taken_ = true, rooms_refused_ = refused; }
  [[nodiscard]] bool given_up() const { return exchange_.given_up(); }
  [[nodiscard]] bool can_be_repeated() const { return exchange_.can_be_repeated(); }
  /// Number of wrong bytes.
  std::size_t call(int number) {
    const std::size_t members = buffers_->members();
    const std::size_t self = buffers_->self();
    number_ = number;
    out_.assign(members, {});
    in_.assign(members, {});
    rooms_.assign(2 * members, {});
    std::vector<ShmBlock> send;
    std::vector<ShmBlock> recv;
    for (std::size_t m = 0; m < members; ++m) {
      out_[m].resize(sizes_(self, m, number));
      for (std::size_t i = 0; i < out_[m].size(); ++i) out_[m][i] = value(self, m, i, number);
      in_[m].resize(sizes_(m, self, number) + (m == self ? 0 : more_));
      const bool in_pieces = packed_ && (self + m) % 3 == 0;
      send.push_back(
          {in_pieces ? nullptr : out_[m].data(), out_[m].size(), unit_of(out_[m].size(), m, true)});
      recv.push_back({in_pieces ? nullptr : in_[m].data(), in_[m].size(), unit_of(in_[m].size(), m, false)});
    }
    if (failed_) {
      for (auto* const blocks : {&send, &recv})
        for (ShmBlock& block : *blocks) block = {nullptr, block.bytes, 0};
    }
    exchange_.begin(*buffers_, send, recv, this, false, ShmExchange::Compare::nothing, known_);
    if (rooms_taken_) exchange_.take_rooms(self == 1 && overwrites_);
    finish(exchange_);
    std::size_t wrong = std::exchange(wrong_parts_, 0);
    wrong += std::exchange(releases_, 0) == 1 ? 0U : 1U;
    for (std::size_t m = 0; m < members; ++m) {
      const std::size_t sent = sizes_(m, self, number);
      for (std::size_t i = 0; i < in_[m].size(); ++i)
        wrong += in_[m][i] == (i < sent ? value(m, self, i, number) : std::byte{0}) ? 0U : 1U;
    }
    return wrong;
  }

  std::size_t uniform_call(int number, std::size_t bytes, bool in_place) {
    const std::size_t members = buffers_->members();
    const std::size_t self = buffers_->self();
    Bytes send(members * bytes);
    Bytes recv(members * bytes);
    for (std::size_t m = 0; m < members; ++m)
      for (std::size_t i = 0; i < bytes; ++i) send[m * bytes + i] = value(self, m, i, number);
    if (in_place) recv = send;
    exchange_.begin(*buffers_, in_place ? recv.data() : send.data(), recv.data(), bytes);
    finish(exchange_);
    std::ranges::fill(send, std::byte{0xEE});  // nobody may read it any more
    std::size_t wrong = 0;
    for (std::size_t m = 0; m < members; ++m)
      for (std::size_t i = 0; i < bytes; ++i)
        wrong += recv[m * bytes + i] == value(m, self, i, number) ? 0U : 1U;
    return wrong;
  }

  void gather(std::size_t member, std::size_t begin, std::size_t bytes, std::byte* to) override {
    if (refuses_) throw TransportError("no such datatype", 3);
    require_sound();
    count_wrong_part(out_[member].size(), unit_of(out_[member].size(), member, true), begin, bytes);
    std::memcpy(to, out_[member].data() + begin, bytes);
  }
  void scatter(std::size_t member, std::size_t begin, std::size_t bytes, const std::byte* from) override {
    require_sound();
    count_wrong_part(sizes_(member, buffers_->self(), number_), unit_of(in_[member].size(), member, false),
                     begin, bytes);
    std::memcpy(in_[member].data() + begin, from, bytes);
  }
  void copy(std::size_t member) override {
    require_sound();
    std::ranges::copy(out_[member], in_[member].begin());
  }
  std::byte* room(std::size_t member, bool sent, std::size_t bytes) override {
    require_sound();
    if (rooms_refused_) throw TransportError("no memory", 3);
    Bytes& room = rooms_[sent ? member : out_.size() + member];
    room.resize(bytes);
    return room.data();
  }

  void release_rooms() override { ++releases_; }

  ShmBuffers& buffers() { return *buffers_; }

 private:
  void require_sound() const {
    if (failed_) throw TransportError("no such datatype", 3);
  }

  void count_wrong_part(std::size_t whole, std::size_t unit, std::size_t begin, std::size_t bytes) {
    const bool ends = unit != 0 && (bytes % unit == 0 || begin + bytes == whole);
    if (bytes == whole ? begin != 0 : !ends || begin % unit != 0) ++wrong_parts_;
  }

  std::size_t more_ = 0;
  bool refuses_ = false;
  bool known_ = false;
  bool failed_ = false;
  bool rooms_taken_ = false;
  bool rooms_refused_ = false;
  bool overwrites_ = false;
  int number_ = 0;  // of the call

  std::size_t releases_ = 0;     // of rooms
  std::size_t wrong_parts_ = 0;  // that no datatype could be divided into
  std::unique_ptr<ShmBuffers> buffers_;
  Sizes sizes_;
  bool packed_;
  std::vector<Bytes> out_, in_, rooms_;
  ShmExchange exchange_;
};

/// Runs `body` as every member of a region, in threads; the sum of what it returns. Notes the rounds that
/// were made.
std::size_t in_threads(Memory& memory, Region& region, const Sizes& sizes, bool packed,
                       const std::function<std::size_t(Rank&)>& body) {
  std::vector<std::size_t> wrong(region.members);
  std::vector<std::uint64_t> rounds(region.members);
  std::vector<std::thread> threads;
  for (std::size_t self = 0; self < region.members; ++self) {
    threads.emplace_back([&, self] {
      Rank rank(memory.buffers(self, region), sizes, packed);
      wrong[self] = body(rank);
      rounds[self] = rank.buffers().round();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::ranges::count(rounds, rounds[0]), static_cast<std::ptrdiff_t>(region.members));
  region.rounds = rounds[0];
  return std::accumulate(wrong.begin(), wrong.end(), std::size_t{0});
}

std::size_t in_threads(std::size_t members, const Sizes& sizes, bool packed,
                       const std::function<std::size_t(Rank&)>& body) {
  Memory memory(members);
  Region all{0, members, 0};
  return in_threads(memory, all, sizes, packed, body);
}

std::size_t no_sizes(std::size_t, std::size_t, int) {
  return 0;
}

TEST(ShmBuffers, EqualBlocksOfAllSizes) {
  for (const std::size_t members : {2U, 3U, 5U}) {
    const auto wrong = in_threads(members, no_sizes, false, [](Rank& rank) {
      std::size_t sum = 0;
      int number = 0;
      for (const std::size_t bytes :
           {std::size_t{1}, std::size_t{8}, std::size_t{26}, std::size_t{52}, std::size_t{104},
            std::size_t{105}, std::size_t{4096}, std::size_t{65520}, ShmBuffers::kBufferBytes - 64,
            ShmBuffers::kBufferBytes, 2 * ShmBuffers::kBufferBytes + 17}) {
        for (int repeat = 0; repeat < 5; ++repeat) sum += rank.uniform_call(number++, bytes, false);
        if (ShmExchange::fits(rank.buffers(), bytes)) sum += rank.uniform_call(number++, bytes, true);
      }
      return sum;
    });
    EXPECT_EQ(wrong, 0U) << members << " members";
  }
}

TEST(ShmBuffers, ManyShortCalls) {
  const auto wrong = in_threads(4, no_sizes, false, [](Rank& rank) {
    std::size_t sum = 0;
    for (int number = 0; number < 2000; ++number) sum += rank.uniform_call(number, 8, false);
    return sum;
  });
  EXPECT_EQ(wrong, 0U);
}

// Blocks up to 32 bytes lie in the table; of members 64 apart one bit tells whether there are any.
TEST(ShmBuffers, ShortBlocksOfManyMembers) {
  const Sizes sizes = [](std::size_t src, std::size_t dst, int call) {
    return (src * 7 + dst * 13 + static_cast<std::size_t>(call)) % 5 == 0 ? (src + dst) % 71 : 0;
  };
  const auto wrong = in_threads(67, sizes, true, [](Rank& rank) {
    std::size_t sum = 0;
    for (int number = 0; number < 6; ++number) sum += rank.call(number);
    return sum;
  });
  EXPECT_EQ(wrong, 0U);
}

// Blocks of the sizes that travel in slots, beside empty, shorter and longer ones, of other sizes in each
// call; calls of equal blocks lie between, so that a slot is written again after one round and after several.
TEST(ShmBuffers, BlocksInSlots) {
  constexpr std::size_t least = ShmBuffers::kSlotFrom;
  for (const std::size_t members : {2U, 5U}) {
    const std::size_t most = Memory(members).buffers(0)->slot_bytes();
    ASSERT_GT(most, 2 * least);
    const std::array<std::size_t, 7> lengths{0, 24, least - 1, least, 2 * least + 24, most, most + 1};
    const Sizes sizes = [&](std::size_t src, std::size_t dst, int call) {
      return lengths[(src * 5 + dst * 3 + static_cast<std::size_t>(call)) % lengths.size()];
    };
    for (const bool packed : {false, true}) {
      const auto wrong = in_threads(members, sizes, packed, [&](Rank& rank) {
        std::size_t sum = 0;
        for (int number = 0; number < 30; ++number) {
          sum += rank.call(number);
          const std::size_t bytes = lengths[static_cast<std::size_t>(number) % lengths.size()];
          for (int repeat = 0; bytes > 0 && repeat < number % 4; ++repeat)
            sum += rank.uniform_call(number, bytes, ShmExchange::fits(rank.buffers(), bytes) && repeat == 1);
        }
        return sum;
      });
      EXPECT_EQ(wrong, 0U) << members << (packed ? " members, packed" : " members");
    }
  }
}

TEST(ShmBuffers, OwnBlocksHaveNoSlot) {
  const auto buffers = Memory(2).buffers(0);
  const ShmBlock shorter{nullptr, 8};
  const ShmBlock longest{nullptr, buffers->slot_bytes()};
  EXPECT_TRUE(ShmExchange::fits(*buffers, std::array{shorter, longest}));
  EXPECT_FALSE(ShmExchange::fits(*buffers, std::array{longest, shorter}));
}

// The two slots of a pair change hands from round to round, and are nobody else's.
TEST(ShmBuffers, SlotsAreWrittenByTheirReaders) {
  constexpr std::size_t members = 4;
  Memory memory(members);
  const auto buffers = memory.buffers(0);
  std::map<const std::byte*, std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t from = 0; from < members; ++from) {
    for (std::size_t to = 0; to < members; ++to) {
      if (from == to) continue;
      EXPECT_NE(buffers->slot(from, to, 2), buffers->slot(from, to, 3));
      EXPECT_EQ(buffers->slot(from, to, 2), buffers->slot(to, from, 3));
      EXPECT_EQ(buffers->slot(from, to, 2), buffers->slot(from, to, 4));
      EXPECT_TRUE(pairs.try_emplace(buffers->slot(from, to, 2), from, to).second);
    }
  }
  const std::byte* before = nullptr;
  for (const auto& [at, pair] : pairs) {
    if (before != nullptr) {
      EXPECT_GE(static_cast<std::size_t>(at - before), buffers->slot_bytes());
    }
    before = at;
  }
}

// Datatypes with gaps that a buffer does not hold: they are packed part by part.
TEST(ShmBuffers, LongPackedBlocksTravelInParts) {
  const Sizes sizes = [](std::size_t src, std::size_t dst, int call) {
    return 120 * (700 + (src * 3 + dst + static_cast<std::size_t>(call)) % 5 * 331);
  };
  for (const std::size_t from :
       {std::size_t{0}, std::size_t{100}}) {  // blocks stay, if they cannot be divided
    const auto wrong = in_threads(5, sizes, true, [&](Rank& rank) {
      if (from > 0) rank.buffers().let_stay(std::vector<pid_t>(5, getpid()), from);
      std::size_t sum = 0;
      for (int number = 0; number < 12; ++number) sum += rank.call(number);
      return sum;
    });
    EXPECT_EQ(wrong, 0U) << from;
  }
}

// A block that is shorter than its receiver expects may end within a run.
TEST(ShmBuffers, LongPackedBlocksMayBeShorterThanExpected) {
  constexpr std::size_t less = 37;
  const Sizes sizes = [](std::size_t src, std::size_t dst, int call) {
    return 120 * (700 + (src * 3 + dst + static_cast<std::size_t>(call)) % 5 * 331) - less;
  };
  const auto wrong = in_threads(5, sizes, true, [](Rank& rank) {
    rank.expect_more(less);
    std::size_t sum = 0;
    for (int number = 0; number < 12; ++number) sum += rank.call(number);
    return sum;
  });
  EXPECT_EQ(wrong, 0U);
}

// One rank sends half of all bytes, most blocks are empty, sizes change from call to call.
std::size_t skewed(std::size_t src, std::size_t dst, int call) {
  std::mt19937 random(static_cast<unsigned>(src * 1009 + dst * 31 + static_cast<std::size_t>(call)));
  if (random() % 10 < 4) return 0;
  return random() % 300 + (src == static_cast<std::size_t>(call) % 4 ? random() % 700'000 : 0);
}

TEST(ShmBuffers, SkewedAndSparseBlocks) {
  for (const bool packed : {false, true}) {
    const auto wrong = in_threads(4, skewed, packed, [](Rank& rank) {
      std::size_t sum = 0;
      for (int number = 0; number < 40; ++number) sum += rank.call(number);
      return sum;
    });
    EXPECT_EQ(wrong, 0U) << (packed ? "packed" : "in one piece");
  }
}

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

/// In each call some members send to a few others; between them are calls of equal blocks.
std::size_t few(std::size_t src, std::size_t dst, int call) {
  const std::size_t way = (dst + 8 - src) % 8;
  if (way > 3) return 0;
  return way == 3 && call % 40 != 39 ? 0 : 1 + (src * 5 + dst + static_cast<std::size_t>(call) * 7) % 90;
}

// A call through tables, then 15 by pairs, which are no rounds, and so on. Some pairs are silent for 39
// calls.
TEST(ShmBuffers, SparseCallsGoByPairs) {
  for (const bool packed : {false, true}) {
    const auto wrong = in_threads(8, few, packed, [](Rank& rank) {
      rank.know_sizes(true);
      std::size_t sum = 0;
      for (int number = 0; number < 320; ++number) {
        sum += rank.call(number);
        if (number % 50 == 7) sum += rank.uniform_call(number, 100, false);
      }
      return sum + (rank.buffers().round() == 320 / 16 + 7 ? 0 : 1);
    });
    EXPECT_EQ(wrong, 0U) << (packed ? "packed" : "in one piece");
  }
}

TEST(ShmBuffers, SilentPairsAreNotTouched) {
  constexpr std::size_t members = 5;
  const Sizes sizes = [](std::size_t src, std::size_t dst, int) { return src == 0 && dst == 1 ? 8U : 0U; };
  Memory memory(members);
  Region all{0, members, 0};
  const auto wrong = in_threads(memory, all, sizes, false, [](Rank& rank) {
    rank.know_sizes(true);
    std::size_t sum = 0;
    for (int number = 0; number < 16; ++number) sum += rank.call(number);
    return sum;
  });
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(all.rounds, 1U);
  for (std::size_t member = 0; member < members; ++member) {
    const std::span pairs(memory.region(member) + ShmBuffers::region_bytes() - PairSlots::kBytes,
                          PairSlots::kBytes);
    const auto touched = std::ranges::count_if(pairs, [](std::byte b) { return b != std::byte{0}; });
    EXPECT_EQ(touched > 0, member == 1) << "member " << member;
  }
}

/// A member goes on as far as its messages are taken: nobody else is waited for.
TEST(ShmBuffers, ByPairsNobodyWaitsForTheOthers) {
  constexpr std::size_t members = 4;
  const Sizes sizes = [](std::size_t src, std::size_t dst, int) {
    return src < 2 && dst == 1 - src ? 8U : 0U;
  };
  std::atomic<int> here{0};
  const auto wrong = in_threads(members, sizes, false, [&](Rank& rank) {
    rank.know_sizes(true);
    std::size_t sum = rank.call(0);
    if (rank.buffers().self() >= 2) {  // late
      while (here.load() < 2) std::this_thread::yield();
    }
    for (int number = 1; number < 16; ++number) sum += rank.call(number);
    if (rank.buffers().self() < 2) ++here;
    return sum;
  });
  EXPECT_EQ(wrong, 0U);
}

// Blocks longer than a slot, beside short ones: they come in parts, and calls go through tables then.
TEST(ShmBuffers, LongBlocksByPairs) {
  const Sizes sizes = [](std::size_t src, std::size_t dst, int call) -> std::size_t {
    if (dst != (src + 1) % 5 && dst != (src + 2) % 5) return 0;
    return call % 16 == 9 && src < 2 ? 120 * (200 + src) : 10 + src;
  };
  for (const bool packed : {false, true}) {
    const auto wrong = in_threads(5, sizes, packed, [](Rank& rank) {
      rank.know_sizes(true);
      std::size_t sum = 0;
      for (int number = 0; number < 40; ++number) sum += rank.call(number);
      return sum + (rank.buffers().round() == 1 + 24 ? 0 : 1);
    });
    EXPECT_EQ(wrong, 0U) << (packed ? "packed" : "in one piece");
  }
}

TEST(ShmBuffers, BlocksOfAllMembersGoThroughTables) {
  const Sizes sizes = [](std::size_t src, std::size_t dst, int) { return 1 + src + dst; };
  const auto wrong = in_threads(4, sizes, false, [](Rank& rank) {
    rank.know_sizes(true);
    std::size_t sum = 0;
    for (int number = 0; number < 20; ++number) sum += rank.call(number);
    return sum + (rank.buffers().round() == 20 ? 0 : 1);
  });
  EXPECT_EQ(wrong, 0U);
}

// Others used the same memory before, as more or fewer members.
TEST(ShmBuffers, PairsOfLaterUsers) {
  Memory memory(8);
  std::uint64_t rounds = 0;
  for (const std::size_t members : {8U, 5U, 8U, 4U, 7U, 8U}) {
    Region region{0, members, rounds};
    const auto wrong = in_threads(memory, region, few, members % 2 == 1, [](Rank& rank) {
      rank.know_sizes(true);
      std::size_t sum = 0;
      for (int number = 0; number < 37; ++number) sum += rank.call(number);
      return sum;
    });
    EXPECT_EQ(wrong, 0U) << members << " members";
    rounds = region.rounds;
  }
}

// What a receiver does not expect in its call it is told in a later one, in which it expects something.
TEST(ShmBuffers, MessagesOfEarlierCallsAreAnError) {
  Memory memory(4);
  std::vector<std::thread> threads;
  std::array<bool, 4> refused{};
  for (std::size_t self = 0; self < 4; ++self) {
    threads.emplace_back([&, self] {
      const auto buffers = memory.buffers(self);
      ShmExchange exchange;
      Bytes block(8, std::byte{1});
      const auto call = [&](bool sends, bool receives) {
        std::vector<ShmBlock> send(4);
        std::vector<ShmBlock> recv(4);
        if (self == 0 && sends) send[1] = {block.data(), 8};
        if (self == 1 && receives) recv[0] = {block.data(), 8};
        exchange.begin(*buffers, send, recv, nullptr, false, ShmExchange::Compare::nothing, true);
        try {
          finish(exchange);
        } catch (const TransportError& e) {
          refused[self] = e.truncated();
        }
      };
      call(true, true);
      call(true, false);
      call(true, true);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, (std::array{false, true, false, false}));
}

// What comes lies where something else was sent from: each sends to the next, and its own block moves as
// well.
TEST(ShmBuffers, BlocksByPairsMayOverlap) {
  constexpr std::size_t members = 4;
  Memory memory(members);
  std::array<std::size_t, members> wrong{};
  std::vector<std::thread> threads;
  for (std::size_t self = 0; self < members; ++self) {
    threads.emplace_back([&, self] {
      const auto buffers = memory.buffers(self);
      ShmExchange exchange;
      for (int call = 0; call < 40; ++call) {
        Bytes both{value(self, 0, 0, call), value(self, 1, 0, call)};
        std::vector<ShmBlock> send(members);
        std::vector<ShmBlock> recv(members);
        send[(self + 1) % members] = {both.data(), 1};
        send[self] = {both.data() + 1, 1};
        recv[self] = {both.data(), 1};
        recv[(self + 3) % members] = {both.data() + 1, 1};
        exchange.begin(*buffers, send, recv, nullptr, true, ShmExchange::Compare::nothing, true);
        finish(exchange);
        const Bytes expected{value(self, 1, 0, call), value((self + 3) % members, 0, 0, call)};
        wrong[self] += both == expected ? 0 : 1;
      }
      wrong[self] += buffers->round() == 3 ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, (std::array<std::size_t, members>{}));
}

TEST(ShmBuffers, ByPairsAMemberIsToldThatABlockCouldNotBePacked) {
  const Sizes sizes = [](std::size_t src, std::size_t dst, int) {
    return (dst + 4 - src) % 4 == 1 ? 48U : 0U;
  };
  const auto refused = in_threads(4, sizes, true, [](Rank& rank) {
    rank.know_sizes(true);
    std::size_t count = 0;
    for (int number = 0; number < 12; ++number) {
      rank.refuse_to_pack(number == 6);
      try {
        rank.call(number);
      } catch (const TransportError&) {
        ++count;
      }
    }
    return count;
  });
  EXPECT_GT(refused, 0U);
}

TEST(ShmBuffers, IsUsedByOneAtATime) {
  Memory memory(2);
  const auto buffers = memory.buffers(0);
  EXPECT_TRUE(buffers->claim());
  EXPECT_FALSE(buffers->claim());
  buffers->release();
  EXPECT_TRUE(buffers->claim());
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
  waitpid(child, &status, 0);
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

// Regions that others had before, as other members and in other numbers.
TEST(ShmBuffers, EachRegionIsDividedAlikeForAllItsUsers) {
  Memory memory(70);
  const auto wide = memory.buffers(0, {0, 70, 4});
  for (const std::size_t first : {1U, 5U, 40U}) {
    const auto later = memory.buffers(0, {first, 3, 9});
    for (std::size_t member = 0; member < 3; ++member) {
      for (const std::uint64_t round : {2U, 3U})
        EXPECT_EQ(later->buffer(member, round), wide->buffer(first + member, round))
            << first << " " << member;
    }
  }
}

TEST(ShmBuffers, WhatEarlierUsersHaveToldIsNotTakenForAnAnswer) {
  constexpr std::uint64_t made = 20;
  Memory memory(4);
  {
    std::vector<std::unique_ptr<ShmBuffers>> all;
    for (std::size_t m = 0; m < 4; ++m) all.push_back(memory.buffers(m));
    for (std::uint64_t round = 1; round <= made; ++round) {
      for (const auto& buffers : all) buffers->publish();
      for (const auto& buffers : all) buffers->tell_all_read();
    }
    for (int piece = 0; piece < 5; ++piece) {  // of an exchange over one round
      all[2]->ask(0);
      EXPECT_EQ(all[2]->given(0), nullptr);
      EXPECT_NE(all[0]->asked(2), nullptr);
      all[0]->give(2);
      EXPECT_EQ(all[0]->asked(2), nullptr);
      EXPECT_NE(all[2]->given(0), nullptr);
    }
  }
  // Their lines are those of 2 and 0, and of 1 with itself.
  const Region region{1, 2, made};
  const auto owner = memory.buffers(0, region);
  const auto reader = memory.buffers(1, region);
  EXPECT_EQ(owner->round(), made);
  const std::uint64_t next = made + 1;
  EXPECT_EQ(owner->asked(1), nullptr) << "it was somebody else who has asked";
  EXPECT_LT(reader->buffer(0, next)->sequence, next);
  for (const auto& buffers : {owner.get(), reader.get()}) buffers->publish();
  EXPECT_EQ(reader->buffer(0, next)->sequence, next);
  EXPECT_EQ(owner->asked(1), nullptr);
  EXPECT_FALSE(owner->was_read(1, next));
  reader->tell_read(0);
  EXPECT_TRUE(owner->was_read(1, next));
  for (int piece = 0; piece < 3; ++piece) {
    reader->ask(0);
    EXPECT_EQ(reader->given(0), nullptr) << "not yet";
    EXPECT_NE(owner->asked(1), nullptr);
    owner->give(1);
    EXPECT_NE(reader->given(0), nullptr);
    EXPECT_EQ(owner->asked(1), nullptr);
  }
}

TEST(ShmBuffers, RegionsAreUsedAgainByOthers) {
  constexpr pid_t nobody = 0x7ffffff0;
  constexpr std::size_t units = 5;
  enum Way { copied, stays, refused, mixed, ways };
  Memory memory(units);
  std::array<std::uint64_t, units> used{};
  std::mt19937 random(11);
  for (int user = 0; user < 60; ++user) {
    Region region{random() % units, 0, 0};
    region.members = 1 + random() % (units - region.first);
    region.rounds =
        *std::max_element(used.begin() + static_cast<std::ptrdiff_t>(region.first),
                          used.begin() + static_cast<std::ptrdiff_t>(region.first + region.members));
    const Way way = static_cast<Way>(random() % ways);
    const bool together = random() % 2 == 0;
    const std::size_t wrong = in_threads(memory, region, skewed, random() % 2 == 0, [&](Rank& rank) {
      rank.buffers().tell_together(together);
      std::vector<pid_t> pids(region.members, way == refused ? nobody : getpid());
      if (way == mixed) pids[0] = nobody;
      std::size_t sum = 0;
      for (int number = 0; number < 4; ++number) {
        if (way != copied) rank.buffers().let_stay(pids, 100);
        sum += rank.call(user + number);
        if (way != copied) rank.buffers().let_stay(pids, 100);
        sum += rank.uniform_call(user + number, number % 2 == 0 ? 8 : 40'000, false);
      }
      return sum;
    });
    EXPECT_EQ(wrong, 0U) << "user " << user << ": way " << way << ", units " << region.first << " and "
                         << region.members - 1 << " more";
    std::fill_n(used.begin() + region.first, region.members, region.rounds);
  }
}

// Ends of blocks are compared on the way. All members of an exchange, one after the other in one thread.
class Compared : public testing::Test {
 protected:
  using Compare = ShmExchange::Compare;

  /// What one member sends and expects, and how: equal blocks may go without a table.
  struct Call {
    bool uniform = false;
    std::vector<std::size_t> sends;
    std::vector<std::size_t> expects;
  };
  using Calls = std::vector<Call>;

  /// Which members say that sizes agree, and which bytes all have sent.
  struct Result {
    std::size_t agree = 0;
    std::size_t differ = 0;
    std::size_t failed = 0;
    std::size_t wrong_totals = 0;
  };

  explicit Compared() {
    for (std::size_t members = 1; members <= kMost; ++members) {
      memories_.push_back(std::make_unique<Memory>(members));
      for (std::size_t self = 0; self < members; ++self)
        buffers_[members].push_back(memories_.back()->buffers(self));
    }
  }

  Result run(const Calls& calls, Compare compare, bool overlap = false) {
    const std::size_t members = calls.size();
    const auto exchanges = std::span(exchanges_).first(members);
    std::vector<Bytes> out(members), in(members);
    std::vector<std::vector<ShmBlock>> send(members), recv(members);
    const auto cut = [&](const std::vector<std::size_t>& sizes, Bytes& memory,
                         std::vector<ShmBlock>& blocks) {
      memory.resize(std::accumulate(sizes.begin(), sizes.end(), std::size_t{1}));
      std::size_t at = 0;
      for (const std::size_t bytes : sizes) {
        blocks.push_back({memory.data() + at, bytes});
        at += bytes;
      }
    };
    for (std::size_t self = 0; self < members; ++self) {
      cut(calls[self].sends, out[self], send[self]);
      cut(calls[self].expects, in[self], recv[self]);
      ShmBuffers& buffers = *buffers_[members][self];
      if (calls[self].uniform) {
        exchanges[self].begin(buffers, out[self].data(), in[self].data(), calls[self].sends[0]);
      } else {
        exchanges[self].begin(buffers, send[self], recv[self], nullptr, overlap, compare);
      }
    }
    Result result;
    std::vector<bool> done(members);
    const auto advance = [&](std::size_t self) {
      try {
        return exchanges[self].advance();
      } catch (const TransportError&) {
        ++result.failed;
        return true;
      }
    };
    for (int look = 0; look < 10'000 && std::ranges::count(done, false) > 0; ++look) {
      for (std::size_t self = 0; self < members; ++self) done[self] = done[self] || advance(self);
    }
    EXPECT_EQ(std::ranges::count(done, false), 0) << "hangs";
    std::uint64_t total = 0;
    for (const Call& call : calls) total = std::accumulate(call.sends.begin(), call.sends.end(), total);
    const bool tables = std::ranges::none_of(calls, &Call::uniform);
    for (const ShmExchange& exchange : exchanges) {
      ++(exchange.sizes_agree() ? result.agree : result.differ);
      result.wrong_totals += tables && exchange.total_bytes() != total ? 1U : 0U;
    }
    EXPECT_EQ(result.wrong_totals, 0U);
    return result;
  }

  void expect_agree(const Calls& calls, Compare compare, bool overlap = false) {
    const Result result = run(calls, compare, overlap);
    EXPECT_EQ(result.agree, calls.size());
    EXPECT_EQ(result.failed, 0U);
  }
  void expect_differ(const Calls& calls, Compare compare, bool overlap = false) {
    EXPECT_EQ(run(calls, compare, overlap).differ, calls.size());
  }

  std::size_t draw(std::size_t below) { return random_() % below; }
  /// Often empty; in the table, in the buffer, in slots, in several rounds.
  std::size_t size() {
    constexpr std::array<std::size_t, 8> sizes{0, 0, 1, 8, 33, 600, 5000, 100'000};
    const std::size_t bytes = sizes[draw(sizes.size())];
    return bytes == 0 ? 0 : bytes + draw(3);
  }
  static std::size_t other_than(std::size_t bytes, std::size_t by) {
    return bytes >= by && by % 2 == 0 ? bytes - by : bytes + by;
  }
  Calls random_calls(std::size_t members) {
    Calls calls(members, {false, std::vector<std::size_t>(members), std::vector<std::size_t>(members)});
    for (std::size_t from = 0; from < members; ++from) {
      for (std::size_t to = 0; to < members; ++to) calls[from].sends[to] = calls[to].expects[from] = size();
    }
    return calls;
  }
  static Call equal(std::size_t members, std::size_t bytes, bool uniform) {
    return {uniform, std::vector<std::size_t>(members, bytes), std::vector<std::size_t>(members, bytes)};
  }
  /// Lets blocks stay with their senders, or not any more.
  void let_stay(std::size_t members, std::size_t from) {
    for (const auto& buffers : buffers_[members])
      buffers->let_stay(std::vector<pid_t>(members, getpid()), from);
  }

  static constexpr std::size_t kMost = 6;
  std::mt19937 random_{5};
  std::vector<std::unique_ptr<Memory>> memories_;
  std::array<std::vector<std::unique_ptr<ShmBuffers>>, kMost + 1> buffers_;
  std::array<ShmExchange, kMost> exchanges_;
};

TEST_F(Compared, EveryBlockThatDiffersIsSeenByAll) {
  for (std::size_t members = 1; members <= kMost; ++members) {
    for (const bool stay : {false, true}) {
      if (stay) let_stay(members, 500);
      Calls calls = random_calls(members);
      expect_agree(calls, Compare::blocks);
      for (std::size_t from = 0; from < members; ++from) {
        for (std::size_t to = 0; to < members; ++to) {
          for (const bool at_sender : {true, false}) {
            std::size_t& bytes = at_sender ? calls[from].sends[to] : calls[to].expects[from];
            const std::size_t right = bytes;
            bytes = other_than(right, 1 + draw(9));
            expect_differ(calls, Compare::blocks);
            bytes = right;
            expect_agree(calls, Compare::blocks);
          }
        }
      }
    }
  }
}

// Though all sums are right.
TEST_F(Compared, BlocksThatAreMistakenForEachOtherAreSeenByAll) {
  for (int trial = 0; trial < 300; ++trial) {
    const std::size_t members = 2 + draw(kMost - 1);
    Calls calls = random_calls(members);
    const std::size_t self = draw(members);
    auto& sizes = trial % 2 == 0 ? calls[self].sends : calls[self].expects;
    const std::size_t a = draw(members);
    const std::size_t b = draw(members);
    if (sizes[a] == sizes[b]) continue;
    std::swap(sizes[a], sizes[b]);
    expect_differ(calls, Compare::blocks);
  }
}

TEST_F(Compared, WhatAgreesIsNeverSaidToDiffer) {
  for (int trial = 0; trial < 400; ++trial) {
    const std::size_t members = 1 + draw(kMost);
    if (trial == 200) let_stay(members, 100);
    expect_agree(random_calls(members), Compare::blocks);
    const std::size_t bytes = size();
    Calls equal_calls;
    for (std::size_t self = 0; self < members; ++self)
      equal_calls.push_back(equal(members, bytes, bytes > 0 && draw(2) == 0));
    expect_agree(equal_calls, Compare::sums);
    for (Call& call : equal_calls) call.uniform = false;
    expect_agree(equal_calls, Compare::blocks);
    expect_agree(equal_calls, Compare::nothing);
  }
}

// Nobody compares: what is shorter is not an error, and what is longer only its receiver's.
TEST_F(Compared, NothingIsSaidUnlessAsked) {
  Calls calls = random_calls(3);
  calls[0].sends[1] = 5;
  calls[1].expects[0] = 9;
  expect_agree(calls, Compare::nothing);
}

TEST_F(Compared, ARankWhoseEqualBlocksDifferIsSeenByAll) {
  constexpr std::array<std::size_t, 7> sizes{0, 1, 8, 100, 700, 5000, 90'000};
  for (std::size_t members = 2; members <= kMost; ++members) {
    for (int trial = 0; trial < 60; ++trial) {
      const std::size_t bytes = sizes[draw(sizes.size())];
      const std::size_t other = other_than(bytes, 1 + draw(9));
      const std::size_t odd = draw(members);
      const std::size_t forms = draw(3);  // all without tables, all with, or some
      Calls calls;
      for (std::size_t self = 0; self < members; ++self) {
        const std::size_t own = self == odd ? other : bytes;
        calls.push_back(equal(members, own, forms == 0 || (forms == 2 && draw(2) == 0)));
      }
      expect_differ(calls, Compare::sums);
      calls[odd] = equal(members, bytes, calls[odd].uniform);
      expect_agree(calls, Compare::sums);
    }
  }
}

// Blocks may lie where others come to.
TEST_F(Compared, BlocksThatMayOverlapAreComparedToo) {
  for (std::size_t members = 1; members <= kMost; ++members) {
    Calls calls = random_calls(members);
    for (std::size_t from = 0; from < members; ++from) {
      for (std::size_t to = 0; to < members; ++to)
        calls[from].sends[to] = calls[to].expects[from] = std::min<std::size_t>(calls[from].sends[to], 700);
    }
    expect_agree(calls, Compare::blocks, true);
    calls[draw(members)].expects[draw(members)] += 1;
    expect_differ(calls, Compare::blocks, true);
  }
}

TEST(ShmExchange, KnowsWhetherAllHaveCome) {
  constexpr std::size_t members = 3;
  constexpr std::size_t bytes = 200'000;  // more rounds than one
  Memory memory(members);
  std::vector<std::unique_ptr<ShmBuffers>> buffers;
  for (std::size_t self = 0; self < members; ++self) buffers.push_back(memory.buffers(self));
  std::array<ShmExchange, members> exchanges;
  std::array<Bytes, members> out, in;
  for (int call = 0; call < 2; ++call) {
    const auto come = [&](std::size_t self) {
      out[self].resize(members * bytes);
      in[self].resize(members * bytes);
      exchanges[self].begin(*buffers[self], out[self].data(), in[self].data(), bytes);
      EXPECT_FALSE(exchanges[self].advance());
    };
    come(0);
    EXPECT_FALSE(exchanges[0].all_came());
    come(1);
    EXPECT_FALSE(exchanges[0].advance());
    EXPECT_FALSE(exchanges[0].all_came());
    EXPECT_FALSE(exchanges[1].all_came());
    EXPECT_EQ(exchanges[0].missing(5), std::vector<std::size_t>{2});
    come(2);
    EXPECT_TRUE(exchanges[2].all_came());
    std::array<bool, members> done{};
    for (int look = 0; look < 1000 && std::ranges::count(done, false) > 0; ++look) {
      for (std::size_t self = 0; self < members; ++self) {
        done[self] = done[self] || exchanges[self].advance();
        EXPECT_TRUE(exchanges[self].all_came());
      }
    }
    EXPECT_EQ(std::ranges::count(done, true), 3);
  }
}

}  // namespace
}  // namespace tapa
