/// @file
/// Topology files: JSON, schema "tapa-topology/1". Two kinds.
///
/// kind "machine" describes one type of node; it is instantiated for any number of ranks:
///
///     { "schema": "tapa-topology/1", "kind": "machine", "name": "example",
///       "description": "optional words",
///       "slots": 4,                                     // places for ranks on a full node
///       "levels": [                                     // fast to slow
///         {"name": "tile", "groups": [[0,1],[2,3]], "bandwidth": 185e9, "source": "..."},  // groups of
///         slots
///         {"name": "node", "bandwidth": 15e9, "latency": 2e-6},         // all slots of a node; always there
///         {"name": "rack", "nodes": 64},                                // groups of so many nodes; any
///         number
///         {"name": "world"} ],                                          // always the last
///       "nics": [ {"name": "nic0", "bandwidth": 25e9, "message": 1e-7, "pci": "0000:18:00.0",
///                  "provider": "cxi", "numa": 0} ],                     // of one node; only the name is
///                  needed
///       "rails": [[0],[0],[0],[0]],                     // for each slot the NICs it uses, needed with nics
///       "devices": [ {"name": "GPU 0 tile 0", "pci": "0000:18:00.0", "numa": 0}, ... ] }  // for each slot;
///       optional
///
/// kind "ranks" lists every rank's place, so any shape can be written:
///
///     { "schema": "tapa-topology/1", "kind": "ranks", "name": "example", "ranks": 5,
///       "levels": [
///         {"name": "node", "groups": [[0,2,4],[1,3]]},  // groups of ranks; without "groups": all ranks in
///         one
///         {"name": "world", "bandwidth": 12.5e9} ],
///       "nic_level": "world",                           // first level that crosses NICs; without it none
///       does "nics": [ {"name": "nic0", "node": 0}, {"name": "nic0", "node": 1} ],  // node: index in the
///       "groups" of
///                                                       // the level before nic_level
///       "rails": [[0],[1],[0],[1],[0]],                 // for each rank, optional
///       "devices": [...],                               // for each rank, optional
///       "cores_per_rank": 1.0,                          // optional
///       "copy": 8e9 }                                   // optional, see below
///
/// "device_bandwidth", which a level may have: of buffers in the memory of the ranks' GPUs, where that is
/// another than of the ranks' messages. "links", which a level may have: to how many peers at once a rank has
/// links of that bandwidth. "taper", which a level of several nodes may have: bandwidth of the NICs of a
/// group over that of its uplinks. "copy", which a machine may have too: bytes per second at which a rank
/// gathers and scatters its own blocks.
///
/// "host" is a level up to which GPUs of a node do not reach each other's memory, but for those of a level
/// "gpu" below it; their device_bandwidth is that of a GPU's link to the host, in one direction.
///
/// Units: bandwidth in bytes per second, latency and message in seconds; each may be missing (unknown). Every
/// object may have "source" and "comment" (strings); other unknown keys are errors. A level may list names it
/// also stands for in "also".
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "topology/topology.hpp"

namespace tapa {

/// Most bytes of a topology file that are read.
inline constexpr std::size_t max_topology_bytes = std::size_t{64} << 20;

/// One type of node and how nodes are joined.
struct Machine {
  /// A level inside a node: group[slot].
  struct Inner {
    std::string name;
    std::vector<int> group;
    LinkCost link;
  };
  /// A level of `nodes` nodes each (0 = all nodes: the world).
  struct Outer {
    std::string name;
    int nodes = 0;
    LinkCost link;
  };

  std::string name;
  std::string description;
  std::string origin;                   ///< file it was read from
  int slots = 0;                        ///< places for ranks on a full node
  std::vector<Inner> inner;             ///< fast to slow, the last one is "node"
  std::vector<Outer> outer;             ///< fast to slow, the last one is "world"
  std::vector<Nic> nics;                ///< of one node
  std::vector<std::vector<int>> rails;  ///< rails[slot]
  std::vector<Device> devices;          ///< devices[slot], or empty
  std::optional<double> copy;           ///< bytes per second of a rank's own copies
};

/// Where ranks go when only their number is given.
enum class Placement {
  block,       ///< fill a node, then the next
  round_robin  ///< one rank a node in turn
};

/// Reads a file of either kind. Throws std::invalid_argument: "ORIGIN: $.path: VALUE, expected WHAT".
[[nodiscard]] std::variant<Machine, Topology> read_topology_file(std::string_view json_text,
                                                                 const std::string& origin);

/// Reads a file of kind "machine". Throws as read_topology_file does.
[[nodiscard]] Machine read_machine(std::string_view json_text, const std::string& origin);

/// Reads a file of kind "ranks", or of kind "machine" as one full node. Throws as read_topology_file does.
[[nodiscard]] Topology read_topology(std::string_view json_text, const std::string& origin);

/// Places `ranks` ranks on as few nodes as hold them with at most `per_node` (0: all slots) on each.
/// The i-th rank of a node gets slot i. Throws std::invalid_argument when ranks or per_node is out of range.
[[nodiscard]] Topology instantiate(const Machine& machine, int ranks, Placement placement = Placement::block,
                                   int per_node = 0);

/// Places rank r on node node_of_rank[r] (any numbers from 0, gaps allowed).
/// Throws std::invalid_argument when a node gets more ranks than it has slots, or a number is out of range.
[[nodiscard]] Topology instantiate(const Machine& machine, const std::vector<int>& node_of_rank);

/// Reads a file (any name with a '/' or that ends in ".json") or a shipped machine by its name.
/// `ranks` 0 takes a full node of a machine, or all ranks of a file of kind "ranks"; otherwise a machine is
/// instantiated for them, and a file of kind "ranks" must have exactly so many.
/// Throws std::invalid_argument; for an unknown machine the message lists the known ones and the folders
/// searched.
[[nodiscard]] Topology load_topology(const std::string& path_or_machine_name, int ranks = 0,
                                     Placement placement = Placement::block, int per_node = 0);

/// Reads a shipped machine by name or a file of kind "machine" by path. Throws as load_topology does.
[[nodiscard]] Machine load_machine(const std::string& path_or_machine_name);

/// The topology as a file of kind "ranks"; read_topology(write_topology(t)) has the same content except for
/// `sources`.
[[nodiscard]] std::string write_topology(const Topology& topology);

/// Whether a topology is asked for by the path of a file.
[[nodiscard]] bool names_topology_file(const std::string& name);

/// Folders with machine files, in the order in which they are searched: share/tapa/machines beside the
/// library, then beside the program, in the build tree and once installed. Only existing ones.
[[nodiscard]] std::vector<std::string> machine_folders();

/// A machine file found in one of machine_folders().
struct MachineFile {
  std::string name;  ///< file name without ".json"
  std::string path;
};

/// All of them by name; the first folder that has a name wins.
[[nodiscard]] std::vector<MachineFile> shipped_machines();

}  // namespace tapa
