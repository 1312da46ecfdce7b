/// @file
/// What /sys and /proc say. Every function takes the root, so that tests can give a folder of their own.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/record.hpp"

namespace tapa {

/// A network interface before it is known which ones are rails.
struct Interface {
  /// From the least to the most likely rail; only the most likely kind that a node has is taken.
  enum class Kind { virtual_link, ethernet, roce, fabric };
  Nic nic;
  Kind kind = Kind::ethernet;
};

/// First line of a small file, without the newline; empty when it cannot be read.
[[nodiscard]] std::string read_line(const std::string& path);

/// Interfaces that are up and could be rails, by name in natural order (nic2 before nic10). Left out:
/// loopback, bridges and their ports, members of bonds, tunnels, and the interface named "mgmt". RDMA devices
/// (/sys/class/infiniband, /sys/class/cxi) take the place of the network interface of the same PCI function.
[[nodiscard]] std::vector<Interface> list_interfaces(const std::string& sys);

/// Whether /sys shows a device that libfabric or verbs would drive.
[[nodiscard]] bool has_rdma_device(const std::string& sys);

/// Whether /sys shows a GPU or an accelerator of a vendor that gpu.hpp knows, on the PCI bus.
[[nodiscard]] bool has_gpu(const std::string& sys);

/// The rails among `interfaces`: of the most likely kind, and not much slower than the fastest one (a
/// quarter). `wanted` (TAPA_NICS: names separated by ',') takes exactly those; a name that is not there
/// becomes a note.
[[nodiscard]] std::vector<Nic> choose_rails(const std::vector<Interface>& interfaces,
                                            const std::string& wanted, std::vector<std::string>& notes);

/// Bytes per second from "100mbit", "1gbit", "2.5Gbit", "800000bit" (bits per second, powers of 1000, as tc
/// counts). Empty when it is none of these.
[[nodiscard]] std::optional<double> parse_rate(std::string_view text);

/// Sets NIC bandwidths from TAPA_NIC_RATE: one rate for all, or "nic0=100mbit,nic1=1gbit". What is wrong with
/// it becomes a note.
void apply_rates(const std::string& text, std::vector<Nic>& nics, std::vector<std::string>& notes);

/// Fills in host, kernel and node of the record.
void identify_host(const std::string& proc, Record& record);

/// Fills in the facts that need no library. Takes milliseconds on large machines (/proc/cpuinfo).
void add_host_facts(const std::string& proc, const std::string& sys, Record& record);

/// CPUs of the machine that this process may be moved to: online, and left by its control group. Ascending;
/// empty when /sys does not say.
[[nodiscard]] std::vector<int> allowed_cpus(const std::string& proc, const std::string& sys);

/// CPUs that the scheduler may run this process on now, ascending.
[[nodiscard]] std::vector<int> scheduled_cpus();

/// Fills in cores, binding, L3, NUMA node, socket and the NICs near the cores, as hwloc would, in a few dozen
/// small reads. False, with nothing filled in, when `allowed` is empty.
bool add_places(const std::string& sys, const std::vector<int>& allowed, const std::vector<int>& scheduled,
                Record& record);

/// Leaf switch of the node from SLURM_TOPOLOGY_ADDR ("spine.leaf.node") and its pattern
/// ("switch.switch.node").
[[nodiscard]] std::string rack_from_slurm(const std::string& address, const std::string& pattern);

/// CPUs as a list of ranges, "0-3,8".
[[nodiscard]] std::string cpu_list(const std::vector<int>& ascending);

/// Inverse of cpu_list. Empty when the text is no such list, or names a CPU above 65535.
[[nodiscard]] std::vector<int> parse_cpu_list(const std::string& text);

}  // namespace tapa
