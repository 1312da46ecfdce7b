#include "report/traffic.hpp"

#include <algorithm>

namespace tapa {

namespace {

bool has_equal_blocks(std::string_view function) {
  constexpr std::string_view name = "lltoall";
  const std::size_t at = function.find(name);
  if (at == std::string_view::npos || function.find("eighbor") != std::string_view::npos) return false;
  const std::string_view rest = function.substr(at + name.size());
  return rest.empty() || rest.starts_with("_init") || rest == "_c";
}

}  // namespace

std::uint64_t Traffic::begin() {
  constexpr std::uint64_t first = 32;
  constexpr std::uint64_t each = 8;
  ++calls_;
  if (calls_ <= first) return 1;
  // As good as random within each group: programs repeat themselves, too.
  const std::uint64_t group = (calls_ - 1) / each * 0x9e3779b97f4a7c15;
  return (calls_ - 1) % each == (group >> 61) ? each : 0;
}

void Traffic::add(std::size_t member, double bytes) {
  if (bytes_.size() <= member) bytes_.resize(member + 1);
  bytes_[member] += bytes;
}

void Traffic::add_of_gpus(std::size_t member, double bytes, bool reached) {
  if (of_gpus_.size() <= member) of_gpus_.resize(member + 1);
  (reached ? of_gpus_[member].reached : of_gpus_[member].unreached) += bytes;
}

double bytes_to_each(std::span<const ReportRow> rows) {
  double bytes = 0;
  for (const ReportRow& row : rows) {
    if (row.ranks > 0 && has_equal_blocks(row.function)) bytes += static_cast<double>(row.bytes) / row.ranks;
  }
  return bytes;
}

std::vector<LevelBytes> bytes_by_level(const Topology& topology, int rank, std::span<const double> sent,
                                       std::span<const GpuBytes> of_gpus) {
  std::vector<LevelBytes> levels{{"gpu"}, {"host"}};
  std::vector<std::size_t> row;  // of each level of the topology, which may have these, too
  for (const Level& level : topology.levels) {
    const bool inside = static_cast<int>(row.size()) < topology.nic_level;
    const std::string name = inside && level.name == "world" ? "node" : level.name;
    row.push_back(
        static_cast<std::size_t>(std::ranges::find(levels, name, &LevelBytes::name) - levels.begin()));
    if (row.back() == levels.size()) levels.push_back({name});
  }
  for (std::size_t peer = 0; peer < sent.size(); ++peer) {
    const int to = static_cast<int>(peer);
    if (to == rank) continue;
    const bool inside = topology.node_of(rank) == topology.node_of(to);
    const GpuBytes gpus = inside && peer < of_gpus.size() ? of_gpus[peer] : GpuBytes{};
    levels[0].bytes += gpus.reached;
    levels[1].bytes += gpus.unreached;
    levels[row[static_cast<std::size_t>(topology.level_of(rank, to))]].bytes +=
        sent[peer] - gpus.reached - gpus.unreached;
  }
  return levels;
}

}  // namespace tapa
