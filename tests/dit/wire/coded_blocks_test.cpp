// Exchanges in fewer bytes between ranks that are threads: what sender and receiver remember, and what
// arrives.
#include "wire/coded_blocks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>

#include "exchange/local/local_ranks.hpp"

namespace dit {
namespace {

constexpr AttentionShape kShape = {2, 3, 40, 6, 6, 8};

std::vector<float> walk(std::vector<float> values, std::uint32_t seed, float by) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, by);
  for (float& value : values) value += normal(random);
  return values;
}

std::size_t tensor_elements(const std::vector<PeerBlock>& blocks) {
  std::int64_t most = 0;
  for (const PeerBlock& block : blocks) {
    for (const RowRun& run : block.runs) {
      if (run.rows > 0) most = std::max(most, run.offset + (run.rows - 1) * run.stride + block.row_elements);
    }
  }
  return static_cast<std::size_t>(most);
}

// The same on all ranks.
WireMode random_mode(std::mt19937& random, bool first) {
  WireMode mode;
  mode.format = static_cast<WireFormat>(random() % kWireFormats);
  mode.residual = random() % 2 == 0;
  if (!first && random() % 4 == 0) mode.rows = 0.1 + 0.2 * static_cast<double>(random() % 4);
  if (!first && mode.rows >= 1) mode.late = random() % 4 == 0;
  if (!first && random() % 6 == 0) mode = parse_wire_mode("skip");
  return mode;
}

void exchange(ExchangeContext& context, const CodedBlocks::Sizes& sizes, std::vector<std::byte>& send,
              std::vector<std::byte>& recv) {
  dit_exchange_call call{};
  call.send = send.data();
  call.recv = recv.data();
  call.send_blocks = sizes.send.data();
  call.recv_blocks = sizes.recv.data();
  context.exchange(call);
}

struct Rank {
  std::unique_ptr<ExchangeMemory> memory;
  ExchangeLayout layout;
};

// Sends a tensor that drifts, in random modes; afterwards both ends must remember the same.
void drift(int ranks, int per_node, const MemoryOptions& options, bool gather, std::uint32_t seed) {
  std::vector<Rank> all(static_cast<std::size_t>(ranks));
  LocalGroupOptions group;
  group.ranks = ranks;
  group.ranks_per_node = per_node;
  run_local_ranks(group, [&](ExchangeContext& context) {
    const UlyssesLayout layouts(kShape, ranks);
    Rank& own = all[static_cast<std::size_t>(context.rank())];
    own.layout = gather ? layouts.gather_heads(context.rank())
                        : layouts.scatter_heads(AttentionTensor::key, context.rank());
    std::vector<std::uint8_t> slow;
    for (int peer = 0; peer < ranks; ++peer) slow.push_back(peer / per_node != context.rank() / per_node);
    CodedBlocks blocks(own.layout, WireElement::fp32);
    own.memory = std::make_unique<ExchangeMemory>(own.layout, PeerFlags{slow, slow}, options);
    std::vector<float> tensor = walk(std::vector<float>(tensor_elements(own.layout.send)), 7, 1);
    std::vector<float> came(tensor_elements(own.layout.recv));
    std::mt19937 random(seed);
    for (int step = 0; step < 12; ++step) {
      const WireMode mode = random_mode(random, step == 0);
      std::vector<WireMode> modes;
      for (const std::uint8_t far : slow) modes.push_back(far != 0 ? mode : WireMode{});
      for (const WirePart part : {WirePart::now, WirePart::later}) {
        const CodedBlocks::Sizes sizes = blocks.sizes(modes, part);
        std::vector<std::byte> send(sizes.send_bytes), recv(sizes.recv_bytes);
        blocks.encode(modes, part, std::as_bytes(std::span(tensor)), own.memory.get(), send);
        exchange(context, sizes, send, recv);
        if (part == WirePart::now) {
          blocks.decode(modes, recv, own.memory.get(), std::as_writable_bytes(std::span(came)));
        } else {
          blocks.remember(modes, recv, own.memory.get());
        }
      }
      tensor = walk(tensor, static_cast<std::uint32_t>(step), 0.1F);
    }
  });
  for (std::size_t from = 0; from < all.size(); ++from) {
    for (std::size_t to = 0; to < all.size(); ++to) {
      const BlockMemory sent = all[from].memory->sent_to(to);
      const BlockMemory received = all[to].memory->received_from(from);
      const auto same = [](auto a, auto b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); };
      EXPECT_TRUE(same(sent.reference.value, received.reference.value)) << from << " to " << to;
      EXPECT_TRUE(same(sent.reference.digits, received.reference.digits)) << from << " to " << to;
      EXPECT_TRUE(same(sent.reference.change, received.reference.change)) << from << " to " << to;
      EXPECT_TRUE(same(sent.ages, received.ages)) << from << " to " << to;
      const bool far = from / static_cast<std::size_t>(per_node) != to / static_cast<std::size_t>(per_node);
      EXPECT_EQ(sent.reference.value.empty(), !far || all[from].layout.send[to].elements() == 0);
    }
  }
}

TEST(CodedBlocks, BothEndsRememberTheSame) {
  for (const int ranks : {2, 3, 5, 6, 9}) {  // 9: more ranks than heads
    for (std::uint32_t seed = 0; seed < 4; ++seed) {
      drift(ranks, 1 + static_cast<int>(seed % 2), {seed % 2 == 0 ? 0.0F : 0.75F, true, seed > 1 ? 3 : 0},
            seed % 2 == 1, seed);
    }
  }
}

// One sender and one receiver of the same block, without an exchange.
struct Pair {
  explicit Pair(const MemoryOptions& options, std::int64_t rows = 16)
      : layout{{{32, {{0, rows, 32}}}}, {{32, {{0, rows, 32}}}}},
        blocks(layout, WireElement::fp32),
        sender(layout, PeerFlags{{1}, {1}}, options),
        receiver(layout, PeerFlags{{1}, {1}}, options) {}
  std::vector<float> send(const char* mode, const std::vector<float>& tensor) {
    const std::vector<WireMode> modes{parse_wire_mode(mode)};
    const WirePart part = modes[0].late ? WirePart::later : WirePart::now;
    std::vector<std::byte> buffer(blocks.sizes(modes, part).send_bytes);
    blocks.encode(modes, part, std::as_bytes(std::span(tensor)), &sender, buffer);
    std::vector<float> came(tensor.size());
    blocks.decode(modes, buffer, &receiver, std::as_writable_bytes(std::span(came)));
    age_used = receiver.ages().empty() ? 0 : receiver.ages()[0];
    blocks.remember(modes, buffer, &receiver);
    return came;
  }
  ExchangeLayout layout;
  CodedBlocks blocks;
  ExchangeMemory sender, receiver;
  int age_used = 0;
};

TEST(CodedBlocks, RowsThatMovedMostTravel) {
  Pair pair({0, true, 0});
  std::vector<float> x(512, 1.0F);
  EXPECT_EQ(pair.send("full", x), x);
  std::vector<float> moved = x;
  for (std::size_t row = 0; row < 16; ++row) {
    std::fill_n(moved.begin() + static_cast<std::ptrdiff_t>(row * 32), 32, 1.0F + static_cast<float>(row));
  }
  const std::vector<float> came = pair.send("rows 0.25 full", moved);
  for (std::size_t row = 0; row < 16; ++row) {
    EXPECT_EQ(came[row * 32], row >= 12 ? moved[row * 32] : 1.0F);
    EXPECT_EQ(pair.receiver.ages()[row], row >= 12 ? 0 : 1);
  }
}

TEST(CodedBlocks, OldRowsTravelFirst) {
  Pair pair({0, true, 3});
  const std::vector<float> x = walk(std::vector<float>(512, 0.0F), 1, 1);
  pair.send("full", x);
  std::uint16_t oldest = 0;
  for (int step = 0; step < 20; ++step) {
    std::vector<float> y = x;
    y[0] += static_cast<float>(step);  // always the same row
    pair.send("rows 0.5 full", y);
    oldest = std::max(oldest, *std::max_element(pair.receiver.ages().begin(), pair.receiver.ages().end()));
  }
  EXPECT_LE(oldest, 2);
}

TEST(CodedBlocks, LateBlocksServeTheNextStep) {
  Pair pair({0, true, 0});
  const std::vector<float> first(512, 1.0F), second(512, 2.0F), third(512, 3.0F);
  EXPECT_EQ(pair.send("full", first), first);
  EXPECT_EQ(pair.send("late bf16", second), first);
  EXPECT_EQ(pair.age_used, 1);
  EXPECT_EQ(pair.send("late residual int8", third), second);
  EXPECT_EQ(pair.age_used, 1);
  EXPECT_EQ(pair.send("skip", first), third);
  EXPECT_EQ(pair.age_used, 1);
  EXPECT_EQ(pair.send("full", first), first);
  EXPECT_EQ(pair.age_used, 0);
}

TEST(CodedBlocks, OfLateBlocksTheLossIsWhatTheReceiverLacksNow) {
  Pair pair({0, false, 0});
  const std::vector<float> first(512, 1.0F), second(512, 2.0F);
  pair.send("full", first);
  const std::vector<WireMode> modes{parse_wire_mode("late full")};
  std::vector<std::byte> buffer(pair.blocks.sizes(modes, WirePart::later).send_bytes);
  EXPECT_EQ(pair.blocks.sizes(modes).send_bytes, 0U);
  BlockLoss loss;
  pair.blocks.encode(modes, WirePart::later, std::as_bytes(std::span(second)), &pair.sender, buffer, &loss);
  EXPECT_EQ(loss.error, 512.0);
  EXPECT_EQ(loss.whole, 4 * 512.0);
}

// One infinity in a stream: its step shows it, rows that stay and steps that send nothing do not, and what
// follows is sound again.
TEST(CodedBlocks, OneInfinityIsForgotten) {
  for (const char* mode :
       {"residual int8", "residual int4", "fp8", "full", "rows 0.5 residual int4", "late residual int8"}) {
    for (const float momentum : {0.0F, 0.5F}) {
      SCOPED_TRACE(std::string(mode) + ", momentum " + std::to_string(momentum));
      Pair pair({momentum, true, 0});
      const std::vector<float> x = walk(std::vector<float>(512, 0.0F), 1, 1);
      for (int step = 0; step < 4; ++step) pair.send("residual int8", x);
      std::vector<float> broken = x;
      broken[70] = std::numeric_limits<float>::infinity();
      const float came = pair.send(mode, broken)[70];
      const bool late = std::string(mode).starts_with("late");  // and nobody ever sees it
      EXPECT_EQ(std::isfinite(came), late) << came;
      for (const char* next : {"skip", mode, "residual int8", "residual int8"}) {
        const std::vector<float> after = pair.send(next, x);
        for (std::size_t i = 0; i < x.size(); ++i) {
          ASSERT_NEAR(after[i], x[i], next == std::string("skip") || next == mode ? 1.0 : 0.1) << next << i;
        }
      }
    }
  }
}

TEST(CodedBlocks, ForeignMasksAreRefused) {
  Pair pair({0, false, 0});
  const std::vector<WireMode> modes{parse_wire_mode("rows 0.5 fp8")};
  std::vector<std::byte> buffer(pair.blocks.sizes(modes).recv_bytes, std::byte{0});
  std::vector<float> came(512);
  EXPECT_THROW(pair.blocks.decode(modes, buffer, &pair.receiver, std::as_writable_bytes(std::span(came))),
               std::invalid_argument);
}

TEST(CodedBlocks, NeedsMemoryWhereAModeRemembers) {
  Pair pair({0, false, 0});
  const std::vector<WireMode> modes{parse_wire_mode("residual int4")};
  std::vector<std::byte> buffer(pair.blocks.sizes(modes).send_bytes);
  const std::vector<float> x(512);
  EXPECT_THROW(pair.blocks.encode(modes, WirePart::now, std::as_bytes(std::span(x)), nullptr, buffer),
               std::logic_error);
}

TEST(CodedBlocks, MemoryIsKnownBeforehand) {
  const ExchangeLayout layout{{{32, {{0, 16, 32}}}, {8, {{0, 4, 8}}}},
                              {{16, {{0, 2, 16}}}, {8, {{0, 4, 8}}}}};
  const PeerFlags first{{1, 0}, {1, 0}};
  EXPECT_EQ(ExchangeMemory::bytes(layout, first, {}).reference, 512U * 3);
  EXPECT_EQ(ExchangeMemory::bytes(layout, first, {}).received, 32U * 3);
  EXPECT_EQ(ExchangeMemory::bytes(layout, first, {0.5F, true, 0}).total(), (512U + 32) * 4 + 18 * 2);
  EXPECT_EQ(ExchangeMemory::bytes(layout, {{0, 0}, {0, 1}}, {}).total(), 32U * 3);
}

}  // namespace
}  // namespace dit
