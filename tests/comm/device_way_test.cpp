#include "comm/device_way.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tapa {
namespace {

/// All combinations of what decides.
template <class Check>
void for_all(const Check& check) {
  for (int bits = 0; bits < 32; ++bits) {
    for (const int ranks : {1, 2, 16, 17}) {
      for (const char* const gpu : {"auto", "mpi", "stage", "host"}) {
        for (const char* const mpi : {"auto", "yes", "no"}) {
          for (const char* const look : {"mpi", "counts"}) {
            for (const char* const plan : {"auto", "mpi", "linear"}) {
              for (const char* const enable : {"0", "1"}) {
                const DeviceFacts facts{(bits & 1) != 0,
                                        (bits & 2) != 0,
                                        (bits & 4) != 0,
                                        (bits & 8) != 0,
                                        (bits & 16) != 0,
                                        ranks,
                                        16};
                Options options;
                options.set("gpu", gpu, Origin::call);
                options.set("gpu-mpi", mpi, Origin::call);
                options.set("check", look, Origin::call);
                options.set("plan", plan, Origin::call);
                options.set("enable", enable, Origin::call);
                SCOPED_TRACE(std::to_string(bits) + " " + std::to_string(ranks) + " " + gpu + " " + mpi +
                             " " + look + " " + plan + " " + enable);
                check(facts, options.settings());
              }
            }
          }
        }
      }
    }
  }
}

bool takes(const DeviceFacts& facts, const Settings& s) {
  return s.gpu_mpi == GpuMpi::yes || (s.gpu_mpi == GpuMpi::automatic && facts.mpi_takes);
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
    const bool served = facts.built && facts.one_host && facts.ranks >= 2 && facts.ranks <= 16;
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
  EXPECT_EQ(decide_device_way({true, true, false, false, true, 4, 16}, standard).why,
            "this libtapa was built without CUDA; MPI does not take buffers in GPU memory (TAPA_GPU_MPI)");
  EXPECT_EQ(decide_device_way({true, true, true, true, true, 17, 16}, standard).why,
            "17 ranks, the device engine takes at most 16; MPI takes buffers in GPU memory");
  EXPECT_EQ(decide_device_way({true, true, true, true, false, 4, 16}, standard).why,
            "the ranks are on several nodes; MPI takes buffers in GPU memory");
}

/// What a rank can have on one side.
std::vector<SidePlace> all_places() {
  std::vector<SidePlace> all;
  for (int bits = 0; bits < 8; ++bits) all.push_back({(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0});
  return all;
}

TEST(CallWay, AllRanksInHostMemoryOrAllForTheEngineElseWhatTakesBoth) {
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
        const CallWay way = decide_call(one & other, takes);
        const bool host = (one & CallBits::host) != 0 && (other & CallBits::host) != 0;
        const bool engine = (one & CallBits::engine) != 0 && (other & CallBits::engine) != 0;
        EXPECT_EQ(way, host     ? CallWay::host
                       : engine ? CallWay::engine
                       : takes  ? CallWay::mpi
                                : CallWay::stage);
      }
    }
  }
}

}  // namespace
}  // namespace tapa
