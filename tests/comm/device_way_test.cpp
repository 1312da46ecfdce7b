#include "comm/device_way.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tapa/device.h"

namespace tapa {
namespace {

/// Ranks, nodes, ranks of the node with the most.
struct Shape {
  int ranks, nodes, of_node;
};
constexpr Shape kShapes[] = {{1, 1, 1},     {2, 1, 2},     {16, 1, 16},  {17, 1, 17},
                             {2, 2, 1},     {24, 2, 16},   {24, 2, 17},  {512, 64, 8},
                             {513, 64, 16}, {512, 512, 1}, {513, 513, 1}};

DeviceFacts facts_of(int bits, const Shape& shape) {
  return {(bits & 1) != 0,
          (bits & 2) != 0,
          (bits & 4) != 0,
          (bits & 8) != 0,
          (bits & 16) == 0,
          shape.ranks,
          shape.nodes,
          shape.of_node,
          16,
          512};
}

/// All combinations of what decides.
template <class Check>
void for_all(const Check& check) {
  for (int bits = 0; bits < 32; ++bits) {
    for (const Shape& shape : kShapes) {
      for (const char* const gpu : {"auto", "mpi", "stage", "host", "else-mpi", "else-stage"}) {
        for (const char* const look : {"mpi", "counts"}) {
          for (const char* const plan : {"auto", "mpi", "linear"}) {
            for (const char* const enable : {"0", "1"}) {
              const DeviceFacts facts = facts_of(bits, shape);
              Options options;
              options.set("gpu", gpu, Origin::call);
              options.set("check", look, Origin::call);
              options.set("plan", plan, Origin::call);
              options.set("enable", enable, Origin::call);
              SCOPED_TRACE(std::to_string(bits) + " " + std::to_string(shape.ranks) + " on " +
                           std::to_string(shape.nodes) + " " + gpu + " " + look + " " + plan + " " + enable);
              check(facts, options.settings());
            }
          }
        }
      }
    }
  }
}

bool takes(const DeviceFacts& facts, const Settings& s) {
  return s.gpu == GpuBuffers::else_mpi || (s.gpu != GpuBuffers::else_stage && facts.mpi_takes);
}

TEST(DeviceWay, EveryRuleHoldsForAllFactsAndOptions) {
  for_all([](const DeviceFacts& facts, const Settings& s) {
    const DeviceDecision d = decide_device_way(facts, s);
    EXPECT_FALSE(d.why.empty());
    if (!facts.in_use || s.gpu == GpuBuffers::host) {
      EXPECT_EQ(d.way, DeviceWay::host);
      return;
    }
    if (s.gpu == GpuBuffers::mpi || !facts.cuda_only) {
      EXPECT_EQ(d.way, DeviceWay::mpi);
      return;
    }
    const bool fits = facts.ranks_of_node <= 16 && (facts.nodes == 1 || facts.ranks <= 512);
    const bool served = facts.built && facts.has_comm && facts.ranks >= 2 && fits;
    const bool looks = s.check >= Check::counts || s.gpu == GpuBuffers::stage;
    const bool left = !s.enable || (s.plan && s.plan->algorithm == Algorithm::mpi);
    EXPECT_EQ(d.way == DeviceWay::engine, served && !looks && !left);
    // Nothing is handed to an MPI that does not take it, nor copied for one that does, unless asked for.
    EXPECT_TRUE(d.way != DeviceWay::mpi || (takes(facts, s) && !looks));
    EXPECT_TRUE(d.way != DeviceWay::stage || !takes(facts, s) || looks);
    EXPECT_EQ(d.mpi_takes, takes(facts, s) && !looks);
  });
}

TEST(DeviceWay, SaysWhatIsInTheWay) {
  const Settings standard;
  const auto why = [&](int bits, const Shape& shape) {
    return decide_device_way(facts_of(bits, shape), standard).why;
  };
  EXPECT_EQ(why(3, {4, 1, 4}),
            "this libtapa was built without CUDA; MPI does not take buffers in GPU memory (TAPA_GPU)");
  EXPECT_EQ(why(31, {4, 1, 4}),
            "MPI could not make a communicator for the device engine; MPI takes buffers in GPU memory");
  EXPECT_EQ(why(15, {17, 1, 17}),
            "17 ranks, the device engine takes at most 16; MPI takes buffers in GPU memory");
  EXPECT_EQ(why(15, {40, 2, 20}),
            "20 ranks on a node, the device engine takes at most 16; MPI takes buffers in GPU memory");
  EXPECT_EQ(
      why(15, {600, 60, 10}),
      "600 ranks on several nodes, the device engine takes at most 512; MPI takes buffers in GPU memory");
  EXPECT_EQ(why(15, {4, 1, 4}), "the device engine serves these ranks");
  EXPECT_EQ(why(15, {4, 2, 2}),
            "the device engine serves these ranks, if a wire joins their nodes (tapa-info --device)");
}

TEST(DeviceWay, MessagesOfMpiCarryNothingThatMpiTakesItselfUnlessAskedFor) {
  const std::pair<const char*, int> wires[] = {{"nccl", TAPA_DEVICE_WIRE_NCCL},
                                               {"mpi", TAPA_DEVICE_WIRE_MPI},
                                               {"staging", TAPA_DEVICE_WIRE_STAGING},
                                               {"sockets", TAPA_DEVICE_WIRE_SOCKETS},
                                               {"host", TAPA_DEVICE_WIRE_HOST}};
  for (const bool takes : {false, true}) {
    const DeviceDecision decision{DeviceWay::engine, takes, ""};
    Options options;
    EXPECT_EQ(engine_wire(decision, options.settings()),
              takes ? TAPA_DEVICE_WIRE_NCCL : TAPA_DEVICE_WIRE_AUTO);
    for (const auto& [name, wire] : wires) {
      options.set("gpu-wire", name, Origin::call);
      EXPECT_EQ(engine_wire(decision, options.settings()), wire);
    }
  }
}

/// What a rank can have on one side.
std::vector<SidePlace> all_places() {
  std::vector<SidePlace> all;
  for (int bits = 0; bits < 8; ++bits) all.push_back({(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0});
  return all;
}

TEST(DeviceCall, AllRanksInHostMemoryOrAllForTheEngineElseWhatTakesBoth) {
  std::vector<std::uint64_t> ranks;
  for (const SidePlace& send : all_places()) {
    for (const SidePlace& recv : all_places()) {
      for (const bool overlaps : {false, true}) {
        const std::uint64_t bits = call_bits(send, recv, overlaps);
        EXPECT_EQ((bits & CallBits::host) != 0, send.host && recv.host);
        EXPECT_EQ((bits & CallBits::engine) != 0,
                  send.device && recv.device && send.dense && recv.dense && !overlaps);
        ranks.push_back(bits);
      }
    }
  }
  for (const std::uint64_t one : ranks) {
    for (const std::uint64_t other : ranks) {
      for (const bool takes : {false, true}) {
        const DeviceWay way = decide_call(one & other, takes);
        const bool host = (one & CallBits::host) != 0 && (other & CallBits::host) != 0;
        const bool engine = (one & CallBits::engine) != 0 && (other & CallBits::engine) != 0;
        EXPECT_EQ(way, host     ? DeviceWay::host
                       : engine ? DeviceWay::engine
                       : takes  ? DeviceWay::mpi
                                : DeviceWay::stage);
      }
    }
  }
}

/// A call of some ranks: what each says, sends and expects.
struct Tallied {
  std::vector<std::uint64_t> bits;
  std::vector<std::vector<std::size_t>> sent, expected;
  [[nodiscard]] CallTally sum() const {
    CallTally sum;
    for (std::size_t rank = 0; rank < bits.size(); ++rank) {
      const CallTally mine = tally_of(bits[rank], static_cast<int>(rank), sent[rank], expected[rank]);
      sum.ranks += mine.ranks;
      sum.sizes += mine.sizes;
    }
    return sum;
  }
};

/// Blocks of different lengths, some of them none.
Tallied call_of(std::size_t ranks, std::uint64_t bits) {
  Tallied call;
  call.bits.assign(ranks, bits);
  call.sent.assign(ranks, std::vector<std::size_t>(ranks));
  call.expected = call.sent;
  for (std::size_t from = 0; from < ranks; ++from) {
    for (std::size_t to = 0; to < ranks; ++to)
      call.sent[from][to] = call.expected[to][from] = (from * 7 + to * 3) % 5 * 1000;
  }
  return call;
}

constexpr std::uint64_t kAllBits = (1 << CallBits::count) - 1;

TEST(CallTally, HasTheBitsThatAllRanksHave) {
  for (std::uint64_t one = 0; one <= kAllBits; ++one) {
    for (std::uint64_t other = 0; other <= kAllBits; ++other) {
      for (const std::size_t ranks : {2U, 3U, 17U}) {
        Tallied call = call_of(ranks, one);
        call.bits.back() = other;
        EXPECT_EQ(common_bits(call.sum(), static_cast<int>(ranks)), one & other);
      }
    }
  }
  const Tallied most = call_of(512, kAllBits);
  EXPECT_EQ(common_bits(most.sum(), 512), kAllBits);
}

TEST(CallTally, CountsThatDifferAreNotForTheEngine) {
  for (const std::size_t ranks : {2U, 5U}) {
    const auto all = static_cast<int>(ranks);
    for (std::size_t from = 0; from < ranks; ++from) {
      for (std::size_t to = 0; to < ranks; ++to) {
        Tallied call = call_of(ranks, kAllBits);
        call.sent[from][to] += 1;
        EXPECT_EQ(common_bits(call.sum(), all), kAllBits & ~CallBits::engine);
        call.expected[to][from] += 1;
        EXPECT_EQ(common_bits(call.sum(), all), kAllBits);
        // Another pair's difference does not make up for it.
        call.sent[from][to] += 1;
        call.sent[to][(from + 1) % ranks] -= call.sent[to][(from + 1) % ranks] > 0 ? 1 : 0;
        EXPECT_EQ(common_bits(call.sum(), all), kAllBits & ~CallBits::engine);
      }
    }
  }
}

// Whoever begins with host memory alone is not asked in every call for ever.
TEST(HostCalls, EndAfterSomeOfHostMemoryAlone) {
  HostCalls calls;
  for (int call = 1; call < HostCalls::most; ++call) EXPECT_FALSE(calls.count(DeviceWay::host)) << call;
  EXPECT_TRUE(calls.count(DeviceWay::host));
}

TEST(HostCalls, GoOnWhereOneWasOfAnotherMemory) {
  for (const DeviceWay other : {DeviceWay::engine, DeviceWay::stage, DeviceWay::mpi}) {
    HostCalls calls;
    EXPECT_FALSE(calls.count(DeviceWay::host));
    EXPECT_FALSE(calls.count(other));
    for (int call = 0; call < 3 * HostCalls::most; ++call) EXPECT_FALSE(calls.count(DeviceWay::host));
  }
}

}  // namespace
}  // namespace tapa
