#include <cmath>
#include <cstdio>

#include "info.hpp"
#include "topology/sysfs.hpp"

namespace tapa::info {

namespace {

/// Three digits with a prefix of the unit: 1.25e7 -> "12.5 M".
std::string scaled(double value, const char* unit) {
  static const char* const prefixes[] = {"n", "u", "m", "", "k", "M", "G", "T", "P"};
  int p = 3;
  for (; value >= 999.5 && p < 8; ++p) value /= 1000;
  for (; value < 0.9995 && p > 0; --p) value *= 1000;
  char text[48];
  std::snprintf(text, sizeof text, "%.3g %s%s", value, prefixes[p], unit);
  return text;
}

}  // namespace

std::string rate_text(const std::optional<double>& bytes_per_second) {
  if (!bytes_per_second) return "-";
  return scaled(*bytes_per_second, "B/s") + " (" + scaled(*bytes_per_second * 8, "bit/s") + ")";
}

std::string time_text(const std::optional<double>& seconds) {
  return seconds ? scaled(*seconds, "s") : "-";
}

std::string node_name(const Topology& topology, const std::vector<Record>& records, int node) {
  for (std::size_t r = 0; r < records.size(); ++r) {
    if (topology.node_of(static_cast<int>(r)) == node && !records[r].host.empty()) return records[r].host;
  }
  return "node " + std::to_string(node);
}

std::vector<std::vector<int>> ranks_of_nodes(const Topology& topology) {
  std::vector<std::vector<int>> nodes(static_cast<std::size_t>(topology.nodes()));
  for (int r = 0; r < topology.ranks; ++r) nodes[static_cast<std::size_t>(topology.node_of(r))].push_back(r);
  return nodes;
}

std::string ranks_text(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + cpu_list(ranks);
}

}  // namespace tapa::info
