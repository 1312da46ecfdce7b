#include "topology/node_gpus.hpp"

#include <algorithm>

namespace tapa {

NodeGpus::NodeGpus(const std::vector<Record>& records, const std::vector<int>& node)
    : gpus_(records.size()), node_(node) {
  for (const bool driven : {true, false}) {
    for (std::size_t r = 0; r < records.size(); ++r) {
      std::vector<GpuLinks>& known = gpus_[static_cast<std::size_t>(node[r])];
      for (const GpuLinks& gpu : records[r].gpus) {
        if (driven && gpu.pci != short_pci(records[r].gpu.pci)) continue;
        if (std::ranges::find(known, gpu.pci, &GpuLinks::pci) == known.end()) known.push_back(gpu);
      }
    }
  }
  for (std::size_t r = 0; r < records.size(); ++r) {
    const std::string pci = short_pci(records[r].gpu.pci);
    const auto own = std::ranges::find(of_node(r), pci, &GpuLinks::pci);
    const bool found = !pci.empty() && own != of_node(r).end();
    peers_.push_back(static_cast<int>(std::ranges::find(records, records[r].gpu_peers, &Record::gpu_peers) -
                                      records.begin()));
    own_.push_back(found ? std::optional(static_cast<std::size_t>(own - of_node(r).begin())) : std::nullopt);
  }
}

int NodeGpus::island(std::size_t rank) const {
  const std::vector<GpuLinks>& gpus = of_node(rank);
  if (!knows(rank) || gpus[*own_[rank]].links.empty()) return -1;
  return nvlink_islands(gpus)[*own_[rank]] * static_cast<int>(peers_.size()) + peers_[rank];
}

std::optional<GpuPath> NodeGpus::path(std::size_t a, std::size_t b) const {
  if (!knows(a) || !knows(b) || node_[a] != node_[b]) return std::nullopt;
  return path_between(of_node(a), *own_[a], *own_[b], peers_[a] != peers_[b]);
}

}  // namespace tapa
