#include "plan/device_cost.hpp"

#include <algorithm>

namespace tapa {

namespace {

// Measured on two H200, see docs/gpu.md: a call of no bytes in a CUDA graph; what threads' stores reach of a
// link's rate (353 of 450 GB/s).
constexpr double kCall = 3.6e-6;
constexpr double kStores = 0.78;
// Blocks up to there travel with a flag beside every 8 bytes of data.
constexpr std::size_t kLineLimit = 512 << 10;

}  // namespace

std::optional<double> predict_device(const Topology& topology, std::size_t bytes) {
  if (topology.nodes() != 1) return std::nullopt;
  const double sent = static_cast<double>(bytes) * (bytes <= kLineLimit ? 2 : 1);
  double slowest = 0;
  for (int rank = 0; rank < topology.ranks; ++rank) {
    double seconds = 0;
    for (int peer = 0; peer < topology.ranks; ++peer) {
      if (peer == rank) continue;
      const Level& level = topology.levels[static_cast<std::size_t>(topology.level_of(rank, peer))];
      if (!level.link.device_bandwidth) return std::nullopt;
      seconds += sent / (kStores * *level.link.device_bandwidth);
    }
    slowest = std::max(slowest, seconds);
  }
  return topology.ranks > 1 ? std::optional(kCall + slowest) : std::nullopt;
}

}  // namespace tapa
