#include "comm/device_way.hpp"

#include <array>

#include "run/words.hpp"
#include "tapa/device.h"

namespace tapa {

namespace {

/// Why the engine cannot serve a communicator; "" when it can.
std::string engine_obstacle(const DeviceFacts& f) {
  if (!f.built) return "this libtapa was built without CUDA";
  if (!f.has_comm) return "MPI could not make a communicator for the device engine";
  if (f.ranks < 2) return "there is one rank";
  const auto too_many = [](int ranks, const std::string& where, int most) {
    return words(ranks, " ranks", where, ", the device engine takes at most ", most);
  };
  if (f.ranks_of_node > f.most_ranks)
    return too_many(f.ranks_of_node, f.nodes > 1 ? " on a node" : "", f.most_ranks);
  if (f.nodes > 1 && f.ranks > f.most_joined) return too_many(f.ranks, " on several nodes", f.most_joined);
  return {};
}

/// Options that ask for a look at the data or for MPI, which the engine does not give.
std::string engine_unwanted(const Settings& s) {
  if (s.gpu == GpuBuffers::stage) return "TAPA_GPU=stage";
  if (!s.enable) return "TAPA_ENABLE=0";
  if (s.check >= Check::counts) return "TAPA_CHECK looks at copies in host memory";
  if (s.plan && s.plan->algorithm == Algorithm::mpi) return "TAPA_PLAN=mpi";
  return {};
}

constexpr int kTallyBits = 12;  // more than ranks that the engine serves
static_assert(CallBits::count * kTallyBits <= 64 && TAPA_DEVICE_MAX_SIZE < 1 << kTallyBits);

/// Of a block's length: sums of them differ where a block does.
std::uint64_t digest(std::uint64_t from, std::uint64_t to, std::uint64_t bytes) {
  std::uint64_t value = (from << 32 | to) * 0x9e3779b97f4a7c15 + bytes;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

}  // namespace

std::string_view to_string(DeviceWay way) {
  constexpr std::array<std::string_view, 4> names{"host", "mpi", "stage", "engine"};
  return names.at(static_cast<std::size_t>(way));
}

DeviceDecision decide_device_way(const DeviceFacts& facts, const Settings& settings) {
  if (!facts.in_use) return {DeviceWay::host, false, "no rank uses a GPU"};
  if (settings.gpu == GpuBuffers::host)
    return {DeviceWay::host, false, "TAPA_GPU=host promises that no buffer is in GPU memory"};
  if (settings.gpu == GpuBuffers::mpi) return {DeviceWay::mpi, true, "TAPA_GPU=mpi"};
  if (!facts.cuda_only) return {DeviceWay::mpi, true, "a GPU is used through another driver than CUDA's"};
  const std::string unwanted = engine_unwanted(settings);
  const std::string obstacle = unwanted.empty() ? engine_obstacle(facts) : unwanted;
  const bool looks = settings.gpu == GpuBuffers::stage || settings.check >= Check::counts;
  const bool to_mpi = settings.mpi_takes_gpu_memory(facts.mpi_takes) && !looks;
  if (obstacle.empty()) {
    return {DeviceWay::engine, to_mpi,
            std::string("the device engine serves these ranks") +
                (facts.nodes > 1 ? ", if a wire joins their nodes (tapa-info --device)" : "")};
  }
  if (to_mpi) return {DeviceWay::mpi, true, obstacle + "; MPI takes buffers in GPU memory"};
  return {DeviceWay::stage, false,
          looks ? obstacle : obstacle + "; MPI does not take buffers in GPU memory (TAPA_GPU)"};
}

int engine_wire(const DeviceDecision& decision, const Settings& settings) {
  static_assert(static_cast<int>(GpuWire::host) == TAPA_DEVICE_WIRE_HOST, "in the same order");
  return settings.gpu_wire == GpuWire::automatic && decision.mpi_takes ? TAPA_DEVICE_WIRE_NCCL
                                                                       : static_cast<int>(settings.gpu_wire);
}

CallTally tally_of(std::uint64_t bits, int rank, std::span<const std::size_t> send_bytes,
                   std::span<const std::size_t> recv_bytes) {
  CallTally tally;
  for (int bit = 0; bit < CallBits::count; ++bit) tally.ranks |= (bits >> bit & 1) << bit * kTallyBits;
  const auto own = static_cast<std::uint64_t>(rank);
  for (std::size_t peer = 0; peer < send_bytes.size(); ++peer)
    tally.sizes += digest(own, peer, send_bytes[peer]) - digest(peer, own, recv_bytes[peer]);
  return tally;
}

std::uint64_t common_bits(const CallTally& sum, int ranks) {
  std::uint64_t bits = 0;
  for (int bit = 0; bit < CallBits::count; ++bit) {
    const std::uint64_t have = sum.ranks >> bit * kTallyBits & ((1 << kTallyBits) - 1);
    if (have == static_cast<std::uint64_t>(ranks)) bits |= std::uint64_t{1} << bit;
  }
  return sum.sizes == 0 ? bits : bits & ~CallBits::engine;
}

DeviceWay decide_call(std::uint64_t agreed, bool mpi_takes) {
  if ((agreed & CallBits::host) != 0) return DeviceWay::host;
  if ((agreed & CallBits::engine) != 0) return DeviceWay::engine;
  return mpi_takes ? DeviceWay::mpi : DeviceWay::stage;
}

std::uint64_t call_bits(const SidePlace& send, const SidePlace& recv, bool overlaps) {
  std::uint64_t bits = 0;
  if (send.host && recv.host) bits |= CallBits::host;
  if (send.device && recv.device && send.dense && recv.dense && !overlaps) bits |= CallBits::engine;
  return bits;
}

}  // namespace tapa
