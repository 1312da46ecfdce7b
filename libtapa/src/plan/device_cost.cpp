#include "plan/device_cost.hpp"

#include <algorithm>

namespace tapa {

namespace {

// Measured on two H200, see docs/gpu.md: a call of no bytes in a CUDA graph; what threads' stores reach of a
// link's rate (353 of 450 GB/s).
constexpr double kCall = 3.6e-6;
constexpr double kStores = 0.78;
// The same through memory of the host: a call of some MiB, and the share of a PCIe link's rate that copies
// reach in each direction while both are busy (PCIe 5 x16: 43 of 63 GB/s).
constexpr double kHostCall = 85e-6;
constexpr double kHostCopies = 0.69;
// Blocks up to there travel with a flag beside every 8 bytes of data.
constexpr std::size_t kLineLimit = 512 << 10;

}  // namespace

std::optional<double> predict_device(const Topology& topology, std::size_t bytes) {
  if (topology.nodes() != 1) return std::nullopt;
  const double sent = static_cast<double>(bytes) * (bytes <= kLineLimit ? 2 : 1);
  double slowest = 0;
  double call = kCall;
  for (int rank = 0; rank < topology.ranks; ++rank) {
    double seconds = 0;
    for (int peer = 0; peer < topology.ranks; ++peer) {
      if (peer == rank) continue;
      const int level = topology.level_of(rank, peer);
      const auto rate = topology.levels[static_cast<std::size_t>(level)].link.device_bandwidth;
      if (!rate) return std::nullopt;
      const bool host = topology.through_host(level);
      if (host) call = kHostCall;
      seconds += host ? static_cast<double>(bytes) / (kHostCopies * *rate) : sent / (kStores * *rate);
    }
    slowest = std::max(slowest, seconds);
  }
  return topology.ranks > 1 ? std::optional(call + slowest) : std::nullopt;
}

}  // namespace tapa
