#include "topology/gpu_links.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>

namespace tapa {

namespace {

/// Rate of all links of a GPU that end at a switch.
double to_switch(const GpuLinks& gpu) {
  double sum = 0;
  for (const NvLink& link : gpu.links) sum += link.peer.empty() ? link.count * link.bandwidth : 0;
  return sum;
}

double direct(const GpuLinks& from, const GpuLinks& to) {
  double sum = 0;
  for (const NvLink& link : from.links) sum += link.peer == to.pci ? link.count * link.bandwidth : 0;
  return sum;
}

bool refuses(const GpuLinks& from, const GpuLinks& to) {
  return std::ranges::find(from.refuses, to.pci) != from.refuses.end();
}

std::string gigabytes(double rate) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.0f GB/s", rate / 1e9);
  return text.data();
}

}  // namespace

GpuPath path_between(const std::vector<GpuLinks>& gpus, std::size_t a, std::size_t b, bool refused) {
  refused = refused || refuses(gpus[a], gpus[b]) || refuses(gpus[b], gpus[a]);
  if (a == b && !refused) return {GpuPath::Kind::same, std::nullopt};
  const double linked = direct(gpus[a], gpus[b]) + std::min(to_switch(gpus[a]), to_switch(gpus[b]));
  if (linked > 0 && !refused) return {GpuPath::Kind::nvlink, linked};
  const auto kind = refused ? GpuPath::Kind::host : GpuPath::Kind::pcie;
  if (!gpus[a].pcie || !gpus[b].pcie) return {kind, std::nullopt};
  return {kind, std::min(*gpus[a].pcie, *gpus[b].pcie)};
}

std::vector<int> nvlink_islands(const std::vector<GpuLinks>& gpus) {
  std::vector<int> island(gpus.size(), -1);
  int next = 0;
  for (std::size_t first = 0; first < gpus.size(); ++first) {
    if (island[first] >= 0) continue;
    island[first] = next;
    std::vector<std::size_t> reached{first};
    while (!reached.empty()) {
      const std::size_t at = reached.back();
      reached.pop_back();
      for (std::size_t other = 0; other < gpus.size(); ++other) {
        if (island[other] >= 0 || path_between(gpus, at, other).kind != GpuPath::Kind::nvlink) continue;
        island[other] = next;
        reached.push_back(other);
      }
    }
    ++next;
  }
  return island;
}

void refuse_peers(std::vector<GpuLinks>& gpus) {
  for (GpuLinks& gpu : gpus) {
    gpu.refuses.clear();
    for (const GpuLinks& other : gpus) gpu.refuses.push_back(other.pci);
  }
}

std::string text_of(const GpuLinks& gpu) {
  std::string text;
  for (const NvLink& link : gpu.links) {
    text += (text.empty() ? "" : "; ") + std::to_string(link.count) +
            (link.count == 1 ? " NVLink to " : " NVLinks to ") +
            (link.peer.empty() ? "a switch" : link.peer) + ", " + gigabytes(link.count * link.bandwidth);
  }
  if (gpu.pcie) text += (text.empty() ? "" : "; ") + std::string("PCIe ") + gigabytes(*gpu.pcie);
  const auto others = std::ranges::count_if(gpu.refuses, [&](const auto& pci) { return pci != gpu.pci; });
  if (others > 0)
    text += (text.empty() ? "" : "; ") + std::string("does not reach ") + std::to_string(others) +
            " of the others";
  return text;
}

std::optional<double> nvlink_rate(unsigned nvml_version) {
  switch (nvml_version) {
    case 1:
      return 20e9;
    case 2:  // 2.0
    case 3:  // 2.2
    case 4:  // 3.0
    case 5:  // 3.1
    case 6:  // 4.0
      return 25e9;
    case 7:  // 5.0
      return 50e9;
    default:
      return std::nullopt;
  }
}

std::optional<double> pcie_rate(unsigned generation, unsigned lanes) {
  // Of a lane: 2.5 and 5 GT/s with 8 bits in 10; 8 to 32 GT/s with 128 in 130; 64 GT/s with 242 in 256 bytes.
  constexpr std::array<double, 7> lane{0,
                                       0.25e9,
                                       0.5e9,
                                       8e9 / 8 * 128 / 130,
                                       16e9 / 8 * 128 / 130,
                                       32e9 / 8 * 128 / 130,
                                       64e9 / 8 * 242 / 256};
  if (generation == 0 || generation >= lane.size() || lanes == 0 || lanes > 32) return std::nullopt;
  return lane[generation] * lanes;
}

std::string short_pci(std::string_view text) {
  std::string pci(text.substr(0, 32));
  std::ranges::transform(pci, pci.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::size_t colon = pci.find(':');
  if (colon != std::string::npos && colon > 4) pci.erase(0, colon - 4);
  return pci;
}

}  // namespace tapa
