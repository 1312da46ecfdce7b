/// @file
/// What one process knows of its machine and sends to the others: a compact JSON text. Records come from
/// other processes, so they are checked like any untrusted input.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topology/gpu_links.hpp"
#include "topology/topology.hpp"

namespace tapa {

/// A GPU, or one tile of it, as a device that a rank may drive.
struct Gpu {
  std::string name;  ///< "NVIDIA 0", "Intel 2 tile 1"
  std::string pci;   ///< PCI address
  int numa = -1;     ///< NUMA node, -1 when unknown
  int gpu = -1;      ///< number of the GPU on its node
  int tile = -1;     ///< number of the tile on its GPU, -1 for a whole GPU
};

/// Things that slow a machine down; tapa-info turns them into hints. Left out of the library's own records.
struct HostFacts {
  std::string cpu;  ///< model name
  int sockets = 0;  ///< 0 when unknown, as all counts here
  int numa_nodes = 0;
  int gpus = 0;
  double memory = 0;       ///< bytes
  std::string huge_pages;  ///< transparent huge pages: "always", "madvise", "never"
  int ptrace_scope = -1;   ///< kernel.yama.ptrace_scope; cross-memory attach needs 0 between siblings
  double shm_free = -1;    ///< bytes free in /dev/shm, -1 when unknown
  bool operator==(const HostFacts&) const = default;
};

/// One process. Every field may be unknown.
struct Record {
  std::string host;    ///< host name
  std::string kernel;  ///< boot id: processes with the same one share cores
  std::string node;  ///< kernel and UTS, IPC and network namespaces: processes with the same one are one node
  std::string rack;  ///< leaf switch, when the batch system tells
  int cores = 0;     ///< cores of the machine that this process may be moved to
  std::string allowed;  ///< their CPUs; batch systems may give each process its own part
  int bound_cores = 0;  ///< cores that it is bound to, 0 when it is not bound
  std::string cpus;     ///< the CPUs that it is bound to, "0-3,8"; empty when not bound
  int l3 = -1;  ///< the L3 cache, NUMA node and socket that hold all its cores, -1 when that is not one
  int numa = -1;
  int socket = -1;
  Gpu gpu;                            ///< the device it drives; gpu.gpu == -1 when unknown
  std::vector<GpuLinks> gpus;         ///< those of its node; empty when NVML was not asked
  std::string gpu_peers;              ///< only GPUs of ranks with the same word are reached; usually none
  std::vector<Nic> nics;              ///< rails of its node, `node` unused
  std::vector<int> near;              ///< indices of those next to its device or cores; empty when unknown
  std::vector<SourceReport> sources;  ///< what was asked and what it said
  std::vector<std::string> notes;     ///< complaints about the environment
  HostFacts facts;
};

[[nodiscard]] std::string to_json(const Record& record);

/// Inverse of to_json. Throws std::invalid_argument: "ORIGIN: $.path: VALUE, expected WHAT".
[[nodiscard]] Record parse_record(std::string_view json_text, const std::string& origin);

}  // namespace tapa
