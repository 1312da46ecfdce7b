/// @file
/// What tapa-info shows: pure functions from a topology and the records of its ranks to text, JSON and SVG.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "autotune/results.hpp"
#include "comm/device_way.hpp"
#include "topology/record.hpp"
#include "topology/topology.hpp"

namespace tapa::info {

/// Something that makes communication slow or a picture of the machine wrong, and what to do about it.
struct Hint {
  std::string kind;    ///< "unbound", "oversubscribed", ...: stable, for scripts
  std::string text;    ///< what is the case
  std::string advice;  ///< what to do
};

/// Looks for trouble. `records` has one entry for each rank, or is empty for a described machine.
[[nodiscard]] std::vector<Hint> find_hints(const Topology& topology, const std::vector<Record>& records);

/// What ranks of this machine that use its GPUs may expect of buffers there.
struct DeviceBuffers {
  DeviceDecision world;  ///< of a communicator of all ranks
  DeviceDecision node;   ///< of one of a node's ranks, of the node with the most
};

/// `facts`: what does not follow from the topology (built, mpi_takes), agreed by all ranks. Nothing where no
/// rank sees a GPU.
[[nodiscard]] std::optional<DeviceBuffers> device_buffers(const Topology& topology,
                                                          const std::vector<Record>& records,
                                                          DeviceFacts facts, const Settings& settings);

/// Everything as text: levels, tree, sources, hints. Of more than `nodes_shown` nodes only the first are
/// listed.
[[nodiscard]] std::string as_text(const Topology& topology, const std::vector<Record>& records,
                                  const std::optional<DeviceBuffers>& devices, int nodes_shown);

/// Everything as JSON, schema "tapa-info/1"; "topology" in it is a topology file, "learnt" results_text().
[[nodiscard]] std::string as_json(const Topology& topology, const std::vector<Record>& records,
                                  const std::optional<DeviceBuffers>& devices,
                                  const std::string& results = {});

/// What earlier runs have left.
struct ResultsFile {
  std::string path;     ///< "" where there is none
  std::string problem;  ///< why it is not used, or ""
  Results content;
};
/// Its path, how much is in it, and how much of that holds on this machine with these libraries (of `here`)
/// today.
[[nodiscard]] std::string results_text(const ResultsFile& file, const ResultsWhere& here, int today);

/// Levels as nested boxes, ranks with the colour of their NIC, rails as lines. At most the first
/// `nodes_shown` nodes.
[[nodiscard]] std::string as_svg(const Topology& topology, const std::vector<Record>& records,
                                 int nodes_shown);

/// The shipped machines, one line each.
[[nodiscard]] std::string machines_table();

/// The table of algorithms with the predicted time of the best variant of each on this topology, for blocks
/// of the given sizes.
[[nodiscard]] std::string algorithms_table(const Topology& topology, const std::vector<std::size_t>& sizes);

/// "12.5 MB/s (100 Mbit/s)", "-" when unknown.
[[nodiscard]] std::string rate_text(const std::optional<double>& bytes_per_second);

/// "3.2 us"; "-" when unknown.
[[nodiscard]] std::string time_text(const std::optional<double>& seconds);

/// Name of a node: its host name when records tell, else "node N".
[[nodiscard]] std::string node_name(const Topology& topology, const std::vector<Record>& records, int node);

/// The ranks of each node, ascending.
[[nodiscard]] std::vector<std::vector<int>> ranks_of_nodes(const Topology& topology);

/// "rank 3", "ranks 0-3,8"
[[nodiscard]] std::string ranks_text(const std::vector<int>& ranks);

}  // namespace tapa::info
