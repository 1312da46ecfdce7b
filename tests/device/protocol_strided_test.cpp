// Strided all-to-alls with threads of the host as devices: every byte in its place and no other touched,
// whatever rows and planes the sender and the receiver cut a block into.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>
#include <vector>

#include "host_machine.hpp"
#include "small_tuning.hpp"

namespace tapa::device {
namespace {

using Bytes = std::vector<std::byte>;
constexpr std::byte kUntouched{0xee};

std::byte content(int from, int to, Word op, Word at) {
  return static_cast<std::byte>(from * 31 + to * 7 + static_cast<int>(op * 13 + at * 3 + (at >> 8)));
}

/// A block's bytes as a product, which sender and receiver cut each as they like. What both compute.
struct Factors {
  Word run, runs, rows, planes;
};
Factors factors_of(unsigned seed, int from, int to, Word op) {
  std::minstd_rand random(seed + static_cast<unsigned>(from * 101 + to * 13) +
                          static_cast<unsigned>(op) * 7U);
  random.discard(3);
  const Word runs[] = {1, 2, 3, 4, 8, 16, 32, 48};
  if (random() % 6 == 0) return {0, 1, 1, 1};
  return {runs[random() % 8], 1 + random() % 4, 1 + random() % 20, 1 + random() % 3};
}

/// A layout of it from `offset` on: rows apart, planes one behind the other or side by side.
PlacedBlock layout_of(const Factors& f, Word offset, std::minstd_rand& random) {
  Strides strides{f.run, f.runs * f.rows, 0, f.planes, 0};
  switch (random() % 4) {
    case 1:
      strides = {f.run * f.runs, f.rows, 0, f.planes, 0};
      break;
    case 2:
      strides = {f.run * f.runs * f.rows * f.planes, 1, 0, 1, 0};
      break;
    case 3:
      strides = {f.run, f.runs, 0, f.rows * f.planes, 0};
      break;
    default:
      break;
  }
  const Word gaps[] = {0, 1, 2, 4, 8, 16, strides.row_bytes};
  if (random() % 3 == 0) {
    strides.plane_stride = strides.row_bytes + gaps[random() % 7];
    strides.row_stride = strides.planes * strides.plane_stride;
  } else {
    strides.row_stride = strides.row_bytes + gaps[random() % 7];
    strides.plane_stride = strides.rows * strides.row_stride + gaps[random() % 7];
  }
  return {offset, collapsed(strides)};
}

/// One rank's blocks of one side.
class Side {
 public:
  template <class FactorsOf>
  Side(unsigned seed, int size, const FactorsOf& factors) {
    std::minstd_rand random(seed);
    random.discard(2);
    Word end = random() % 40;
    for (int peer = 0; peer < size; ++peer) {
      blocks_.push_back(layout_of(factors(peer), end + random() % 17, random));
      end = blocks_.back().offset + extent_of(blocks_.back().strides);
    }
    memory_.assign(end + 16, kUntouched);
  }
  [[nodiscard]] std::byte* memory() { return memory_.data(); }
  [[nodiscard]] const PlacedBlock& block(int peer) const { return blocks_[static_cast<std::size_t>(peer)]; }
  [[nodiscard]] Rows rows(int peer) {
    return rows_at(memory_.data() + block(peer).offset, block(peer).strides);
  }
  /// Calls `body` with each byte of a block and its position.
  template <class Body>
  void for_bytes(int peer, Bytes& memory, const Body& body) const {
    const auto& [offset, strides] = block(peer);
    Word at = 0;
    for (Word plane = 0; plane < strides.planes; ++plane) {
      for (Word row = 0; row < strides.rows; ++row) {
        for (Word byte = 0; byte < strides.row_bytes; ++byte) {
          body(memory[offset + plane * strides.plane_stride + row * strides.row_stride + byte], at++);
        }
      }
    }
  }
  [[nodiscard]] Bytes& bytes() { return memory_; }

 private:
  std::vector<PlacedBlock> blocks_;
  Bytes memory_;
};

struct Buffers {
  Buffers(unsigned seed, int rank, int size, Word op)
      : send(seed * 31 + static_cast<unsigned>(rank) + static_cast<unsigned>(op) * 17U, size,
             [&](int peer) { return factors_of(seed, rank, peer, op); }),
        receive(seed * 37 + static_cast<unsigned>(rank) + static_cast<unsigned>(op) * 19U, size,
                [&](int peer) { return factors_of(seed, peer, rank, op); }) {
    for (int peer = 0; peer < size; ++peer) {
      send.for_bytes(peer, send.bytes(),
                     [&](std::byte& byte, Word at) { byte = content(rank, peer, op, at); });
    }
  }
  void fill(StridedCall& call, Word window) {
    for (int peer = 0; peer < call.region.size; ++peer) {
      call.blocks[peer] = {send.rows(peer), receive.rows(peer), bytes_of(send.block(peer).strides),
                           bytes_of(receive.block(peer).strides)};
      const bool staged = window == Target::kStaging;
      call.targets[peer] = pack(staged ? Target{} : Target{window, receive.block(peer).offset});
    }
  }
  void expect_right(int rank, int size, Word op) {
    Bytes expected(receive.bytes().size(), kUntouched);
    for (int peer = 0; peer < size; ++peer) {
      receive.for_bytes(peer, expected,
                        [&](std::byte& byte, Word at) { byte = content(peer, rank, op, at); });
    }
    const auto wrong = std::ranges::mismatch(receive.bytes(), expected).in1 - receive.bytes().begin();
    EXPECT_EQ(static_cast<std::size_t>(wrong), expected.size())
        << "first wrong byte; rank " << rank << " of " << size << ", call " << op;
  }
  Side send;
  Side receive;
};

void exchange(int size, Word calls, const LaunchStyle& style, bool windows) {
  HostMachine machine(size, small_tuning());
  std::vector<std::vector<Buffers>> buffers(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    for (Word op = 0; op < calls; ++op) {
      Buffers& made = buffers[static_cast<std::size_t>(rank)].emplace_back(style.seed, rank, size, op);
      if (op < 8) machine.window(op, rank) = made.receive.memory();
    }
  }
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      for (Word op = 0; op < calls; ++op) {
        auto call = machine.call<StridedCall>(rank);
        const bool window = windows && op < 8 && (op + static_cast<Word>(rank)) % 3 != 0;
        buffers[static_cast<std::size_t>(rank)][op].fill(call, window ? op : Target::kStaging);
        LaunchStyle own = style;
        own.seed += static_cast<unsigned>(rank) + static_cast<unsigned>(op) * 64U;
        HostMachine::run(call, own);
      }
    });
  }
  ranks.clear();
  for (int rank = 0; rank < size; ++rank) {
    for (Word op = 0; op < calls; ++op) {
      buffers[static_cast<std::size_t>(rank)][op].expect_right(rank, size, op);
    }
  }
}

class StridedSizes : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, StridedSizes, testing::Range(1, 5));

TEST_P(StridedSizes, EveryByteThroughStaging) {
  for (unsigned seed = 1; seed <= 4; ++seed) exchange(GetParam(), 16, {.seed = seed}, false);
}
TEST_P(StridedSizes, EveryByteIntoWindowsOfSomeRanks) {
  for (unsigned seed = 11; seed <= 18; ++seed) exchange(GetParam(), 8, {.seed = seed}, true);
}
TEST_P(StridedSizes, UnderRandomDelaysWithTeamsOfSeveralLanes) {
  exchange(GetParam(), 6, {.lanes = 3, .delays = 200, .seed = 5}, true);
  exchange(GetParam(), 8, {.lanes = 1, .delays = 20, .seed = 7}, true);
}

}  // namespace
}  // namespace tapa::device
