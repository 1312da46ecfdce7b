/// @file
/// The machine as the library sees it: levels of groups, what a link of each level costs, NICs and rails.
/// A value type without MPI; sources (file, hwloc, libfabric, MPI) fill it, planners read it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tapa {

/// Most ranks that any topology may have: a bound on what untrusted text can make us allocate.
inline constexpr int max_ranks = 1 << 20;
/// Most levels of one that is read, from a file or as factors.
inline constexpr int max_levels = 16;
/// Whether a level may be called so: 1 to 32 letters, digits, '_', '-' or '.', a letter first.
[[nodiscard]] bool is_identifier(std::string_view name);

/// Most NICs, all nodes together.
inline constexpr int max_nics = 1 << 20;

/// Cost of moving one message between two ranks whose fastest common level is this one:
/// seconds = latency + bytes / bandwidth on the wire, and `message` seconds of CPU at each end.
struct LinkCost {
  std::optional<double> latency;    ///< seconds, one way
  std::optional<double> bandwidth;  ///< bytes per second, one direction, one pair of ranks alone
  std::optional<double> message;    ///< CPU seconds to post and complete one message
  std::optional<double> links;      ///< links of `bandwidth` that a rank has to different peers; unknown: one
  std::optional<double> taper;  ///< of groups of nodes: bandwidth of their NICs over that of their uplinks
  std::optional<double> device_bandwidth =
      {};  ///< bytes per second between the ranks' GPUs, one direction, one pair alone
};

/// One level: a partition of all ranks into groups. Ranks of one group share this level's links.
struct Level {
  std::string name;        ///< "tile", "gpu", "numa", "socket", "node", "rack", "world", ...
  std::vector<int> group;  ///< group[rank]: group index, 0 .. groups-1, numbered by first rank
  int groups = 0;          ///< number of groups
  LinkCost link;
  std::vector<std::string>
      also;  ///< names of dropped levels with the same partition; find_level() knows them
};

/// A network interface of one node.
struct Nic {
  std::string name;                 ///< "nic0", "mlx5_0", "cxi3"
  int node = 0;                     ///< which node it is in, as Topology::node_of counts them
  std::optional<double> bandwidth;  ///< bytes per second, one direction
  std::optional<double> message;    ///< seconds that the NIC needs for one message (1 / message rate)
  std::string pci;                  ///< PCI address, empty when unknown
  std::string provider;             ///< libfabric provider or "tcp", empty when unknown
  int numa = -1;                    ///< NUMA node it hangs on, -1 when unknown
};

/// The device that a rank drives, for pictures and for tile pairs.
struct Device {
  std::string name;  ///< "GPU 0 tile 1", "core 4", ...
  std::string pci;   ///< PCI address of a GPU, empty for cores
  int numa = -1;
};

/// What one source had to say; printed by tapa-info so that a wrong picture of the machine can be traced.
struct SourceReport {
  std::string name;    ///< "override", "file", "hwloc", "libfabric", "mpi"
  bool used = false;   ///< whether it contributed
  std::string detail;  ///< what it gave, or why it gave nothing
};

/// The machine, for the ranks 0 .. ranks-1 of one communicator.
/// Invariants (see check()): levels go from fast to slow; every level is a partition; ranks that share a
/// group share it at all slower levels; the last level is "world" with one group.
struct Topology {
  std::string name;  ///< "aurora", "2x2x3", "detected"
  int ranks = 0;
  std::vector<Level> levels;
  int nic_level = 0;  ///< first level whose messages cross NICs; levels.size() when none does
  std::vector<Nic> nics;
  std::vector<std::vector<int>> rails;  ///< rails[rank]: indices into nics that this rank uses; may be empty
  std::vector<Device> devices;          ///< devices[rank], or empty
  std::optional<double>
      cores_per_rank;  ///< usable cores over ranks on the fullest host; below 1 when ranks share cores
  std::optional<double> copy;  ///< bytes per second at which a rank gathers and scatters its own blocks
  std::vector<SourceReport> sources;

  /// Index of the fastest level whose group holds both ranks. a == b gives 0.
  [[nodiscard]] int level_of(int a, int b) const;

  /// The node a rank is in: its group at the level below nic_level (the rank itself when nic_level is 0).
  [[nodiscard]] int node_of(int rank) const;

  /// Number of nodes: node_of() gives 0 .. nodes()-1.
  [[nodiscard]] int nodes() const;

  /// Index of the level of this name (or that stands for a dropped one of this name), or -1.
  [[nodiscard]] int find_level(const std::string& level_name) const;

  /// Whether GPUs of ranks whose fastest common level this is do not reach each other, but through memory of
  /// their host: it lies above "gpu", whose ranks' GPUs do, if there is one, and not above "host".
  [[nodiscard]] bool through_host(int level) const;

  /// Ranks of every group of a level, each ascending: groups_of(l)[group] -> ranks.
  [[nodiscard]] std::vector<std::vector<int>> groups_of(int level) const;

  /// Empty when all invariants hold, else the first violation in words.
  [[nodiscard]] std::string check() const;

  /// The topology of a sub-communicator: rank i of the result is members[i] here. Equal levels are merged
  /// (merge_equal_levels); NICs of nodes without a member are dropped.
  /// Throws std::invalid_argument when there is no member, or one is not a rank or is listed twice.
  [[nodiscard]] Topology subset(const std::vector<int>& members) const;

  /// Merges levels that have the same partition: the slower name stays, the faster name goes to `also`, and
  /// the faster link stays, because it is what the ranks of a group really use (two ranks of the only node
  /// send through the node, not through the world's network). Adjusts nic_level.
  void merge_equal_levels();
};

/// The product of factors. Throws std::invalid_argument when one is below 1, there is none, or the product
/// exceeds max_ranks.
[[nodiscard]] int ranks_of(const std::vector<int>& slow_to_fast);

/// A topology of equal groups, slow to fast: {2,2,3} is 2 nodes x 2 sockets x 3 ranks, numbered
/// consecutively. Level names follow the depth: 1 {world}, 2 {node, world}, 3 {socket, node, world}, 4 {tile,
/// socket, node, world}; deeper ones are rack, then "level<k>". One NIC a node. Link costs are left unknown.
/// Throws as ranks_of.
[[nodiscard]] Topology make_uniform_topology(const std::vector<int>& slow_to_fast);

/// Renumbers `group` so that groups are counted in order of their first rank; returns the number of groups.
int number_by_first_rank(std::vector<int>& group);

}  // namespace tapa
