#include "request.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <stdexcept>

#include "../tapa-plan/request.hpp"

namespace tapa::sim_tool {

namespace {

constexpr int kMostRanks = 8192;
constexpr std::size_t kMostBytes = std::size_t{1} << 24;
constexpr std::size_t kStep = 4;
constexpr int kUsualRanks = 128;

// smpirun --help-coll; those that need a power of two or never end at these sizes are left out.
constexpr std::array<std::string_view, 10> kRivals = {
    "ompi", "mpich",        "mvapich2", "impi", "bruck",
    "ring", "basic_linear", "pair",     "rdb",  "mvapich2_scatter_dest"};

[[noreturn]] void refuse(const std::string& reason) {
  throw std::invalid_argument(reason);
}

/// Every second node has two thirds of the others' ranks.
std::vector<int> unequal(int nodes, int per_node) {
  std::vector<int> node;
  for (int n = 0; n < nodes; ++n) {
    const int here = n % 2 == 0 ? per_node : std::max(1, per_node * 2 / 3);
    for (int i = 0; i < here; ++i) node.push_back(n);
  }
  return node;
}

}  // namespace

Topology make_topology(const sim::Simulated& simulated, const Words& words) {
  const Machine& machine = simulated.machine;
  if (words.nodes < 0 || words.nodes > kMostRanks) {
    refuse("--nodes is " + std::to_string(words.nodes) + ", expected 1 to " + std::to_string(kMostRanks));
  }
  if (words.per_node < 0 || words.per_node > machine.slots) {
    refuse("--per-node is " + std::to_string(words.per_node) + ", expected 1 to " +
           std::to_string(machine.slots) + ", the places on a node of " + machine.name);
  }
  const int per_node = words.per_node == 0 ? machine.slots : words.per_node;
  const int nodes = words.nodes == 0 ? std::max(1, kUsualRanks / per_node) : words.nodes;
  if (nodes * per_node > kMostRanks) {
    refuse("--nodes " + std::to_string(nodes) + " has " + std::to_string(nodes * per_node) +
           " ranks, expected at most " + std::to_string(kMostRanks));
  }
  if (words.placement == "unequal") return instantiate(machine, unequal(nodes, per_node));
  if (words.placement != "block" && words.placement != "round-robin")
    refuse("--placement is \"" + words.placement + "\", expected block, round-robin or unequal");
  return instantiate(machine, nodes * per_node,
                     words.placement == "block" ? Placement::block : Placement::round_robin, per_node);
}

std::vector<std::size_t> read_sizes(const std::string& text) {
  std::vector<std::size_t> sizes;
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) {
    sizes = plan_tool::read_sizes(text);
  } else {
    const auto first = plan_tool::read_sizes(text.substr(0, colon));
    const auto last = plan_tool::read_sizes(text.substr(colon + 1));
    if (first.size() != 1 || last.size() != 1 || first[0] < 1 || first[0] > last[0])
      refuse("--bytes is \"" + text + "\", expected MIN:MAX with 1 <= MIN <= MAX, or a list");
    for (std::size_t bytes = first[0]; bytes <= last[0]; bytes *= kStep) sizes.push_back(bytes);
  }
  for (const std::size_t bytes : sizes) {
    if (bytes < 1 || bytes > kMostBytes)
      refuse("--bytes has " + std::to_string(bytes) + ", expected 1 to " + std::to_string(kMostBytes));
  }
  return sizes;
}

std::vector<std::string> read_rivals(const std::string& text) {
  std::vector<std::string> rivals;
  std::istringstream list(text);
  for (std::string name; std::getline(list, name, ',');) {
    if (std::find(kRivals.begin(), kRivals.end(), name) == kRivals.end()) {
      std::string known;
      for (std::string_view rival : kRivals) known += (known.empty() ? "" : ", ") + std::string(rival);
      refuse("--rivals has \"" + name + "\", expected some of " + known);
    }
    rivals.push_back(name);
  }
  return rivals;
}

}  // namespace tapa::sim_tool
