#include "comm/device_way.hpp"

namespace tapa {

namespace {

/// Why the engine cannot serve a communicator; "" when it can.
std::string engine_obstacle(const DeviceFacts& f) {
  if (!f.built) return "this libtapa was built without CUDA";
  if (!f.one_host) return "the ranks are on several nodes";
  if (f.ranks < 2) return "there is one rank";
  if (f.ranks > f.most_ranks) {
    return std::to_string(f.ranks) + " ranks, the device engine takes at most " +
           std::to_string(f.most_ranks);
  }
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

}  // namespace

std::string_view to_string(DeviceWay way) {
  switch (way) {
    case DeviceWay::host:
      return "host";
    case DeviceWay::mpi:
      return "mpi";
    case DeviceWay::stage:
      return "stage";
    default:
      return "engine";
  }
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
  const bool takes =
      settings.gpu_mpi == GpuMpi::automatic ? facts.mpi_takes : settings.gpu_mpi == GpuMpi::yes;
  const bool to_mpi = takes && !looks;
  if (obstacle.empty()) return {DeviceWay::engine, to_mpi, "the device engine serves these ranks"};
  if (to_mpi) return {DeviceWay::mpi, true, obstacle + "; MPI takes buffers in GPU memory"};
  return {DeviceWay::stage, false,
          looks ? obstacle : obstacle + "; MPI does not take buffers in GPU memory (TAPA_GPU_MPI)"};
}

CallWay decide_call(std::uint64_t agreed, bool mpi_takes) {
  if ((agreed & CallBits::host) != 0) return CallWay::host;
  if ((agreed & CallBits::engine) != 0) return CallWay::engine;
  return mpi_takes ? CallWay::mpi : CallWay::stage;
}

std::uint64_t call_bits(const SidePlace& send, const SidePlace& recv, bool overlaps) {
  std::uint64_t bits = 0;
  if (send.host && recv.host) bits |= CallBits::host;
  if (send.device && recv.device && send.dense && recv.dense && !overlaps) bits |= CallBits::engine;
  return bits;
}

}  // namespace tapa
