#include <algorithm>

#include "files/environment.hpp"
#include "topology/current_cuda_gpu.hpp"
#include "topology/detect.hpp"
#include "topology/gpu_peers.hpp"
#include "topology/hwloc_source.hpp"
#include "topology/libfabric_source.hpp"
#include "topology/nvml_source.hpp"
#include "topology/sysfs.hpp"

namespace tapa {

namespace {

constexpr const char* kSys = "/sys";
constexpr const char* kProc = "/proc";

std::string variable(const char* name) {
  const char* value = files::variable(name);
  return value == nullptr ? std::string() : value;
}

/// Whether /sys leaves something open that libfabric may know: a fabric that it does not list, or its speed.
bool needs_libfabric(const std::vector<Interface>& interfaces) {
  if (!has_rdma_device(kSys)) return false;
  const auto is_fabric = [](const Interface& i) { return i.kind > Interface::Kind::ethernet; };
  return std::none_of(interfaces.begin(), interfaces.end(), is_fabric) ||
         std::any_of(interfaces.begin(), interfaces.end(),
                     [&](const Interface& i) { return is_fabric(i) && !i.nic.bandwidth; });
}

/// Whether hwloc knows more than /sys: the device of a rank, or another machine that stands in for this one.
bool needs_hwloc() {
  for (const char* name : {"HWLOC_XMLFILE", "HWLOC_SYNTHETIC", "HWLOC_FSROOT", "HWLOC_CPUID_PATH"}) {
    if (!variable(name).empty()) return true;
  }
  return names_gpu(variable) && has_gpu(kSys);
}

/// What CUDA_VISIBLE_DEVICES is read with. A process that uses a device can say which. Else NVML, which
/// initialises all GPUs for that, is asked where it may tell of one: of a program that has not even loaded
/// CUDA for people alone, since jobs on machines with GPUs have the variable whatever they run.
CudaView view_of_cuda(bool thorough) {
  CudaView view;
  const std::string list = variable("CUDA_VISIBLE_DEVICES");
  if (list.empty() || !has_gpu(kSys)) return view;
  view.current = current_cuda_gpu();
  if (!view.current.empty()) return view;
  if (!thorough && !has_loaded_cuda()) {
    view.problem = "the process has not loaded CUDA";
  } else if (may_show_one(list)) {
    view.gpus = cuda_gpus(view.problem);
  } else {
    view.problem = "it does not name exactly one, and the process uses none yet";
  }
  return view;
}

SourceReport ask_libfabric(bool thorough, std::vector<Interface>& interfaces) {
  if (needs_libfabric(interfaces)) return add_libfabric(interfaces);
  if (!thorough) return {"libfabric", false, "not asked: /sys says all about the NICs"};
  std::vector<Interface> others = interfaces;
  SourceReport report = add_libfabric(others);
  report.detail += "; not needed: /sys says all about the NICs";
  return report;
}

/// What hwloc sees in another way than /sys, for people: "l3 4".
std::string differences(const Record& sys, const Record& hwloc) {
  std::string text;
  const auto compare = [&](const char* what, const auto& a, const auto& b, const std::string& shown) {
    if (!(a == b)) text += std::string(text.empty() ? "" : ", ") + what + " " + shown;
  };
  compare("cores", sys.cores, hwloc.cores, std::to_string(hwloc.cores));
  compare("allowed CPUs", sys.allowed, hwloc.allowed, hwloc.allowed);
  compare("bound CPUs", sys.cpus, hwloc.cpus, hwloc.cpus);
  compare("l3", sys.l3, hwloc.l3, std::to_string(hwloc.l3));
  compare("NUMA node", sys.numa, hwloc.numa, std::to_string(hwloc.numa));
  compare("socket", sys.socket, hwloc.socket, std::to_string(hwloc.socket));
  compare("near NICs", sys.near, hwloc.near, std::to_string(hwloc.near.size()));
  return text;
}

/// What hwloc says besides of what /sys said: facts, and where it sees the process in another place.
void compare_with_hwloc(std::vector<Nic> nics, Record& record) {
  Record seen;
  seen.nics = std::move(nics);
  const bool asked = add_hwloc(variable, view_of_cuda(true), seen);
  SourceReport report = seen.sources.back();
  if (const std::string other = differences(record, seen); asked && !other.empty())
    report.detail += "; sees otherwise than /sys, which is kept: " + other;
  record.facts = seen.facts;
  record.sources.push_back(std::move(report));
}

/// Cores, binding and what is near.
void find_places(bool thorough, Record& record) {
  const std::vector<Nic> nics = record.nics;
  if (needs_hwloc() && add_hwloc(variable, view_of_cuda(thorough), record)) return;
  const bool known = add_places(kSys, allowed_cpus(kProc, kSys), scheduled_cpus(), record);
  if (!record.sources.empty()) return;  // hwloc said why it failed
  if (!known)
    add_hwloc(variable, view_of_cuda(thorough), record);  // a kernel that hides its processors
  else if (thorough)
    compare_with_hwloc(nics, record);
  else
    record.sources.push_back({"hwloc", false, "not asked: /sys says all about the cores"});
}

/// Without the word that is for the drop-in alone.
std::string names_of_nics(const std::string& option) {
  for (const std::string word : {"each", "all"}) {
    if (option == word) return {};
    if (option.starts_with(word + ",")) return option.substr(word.size() + 1);
  }
  return option;
}

}  // namespace

Record describe_process(bool thorough) {
  Record record;
  identify_host(kProc, record);
  record.rack = rack_from_slurm(variable("SLURM_TOPOLOGY_ADDR"), variable("SLURM_TOPOLOGY_ADDR_PATTERN"));
  std::vector<Interface> interfaces = list_interfaces(kSys);
  SourceReport fabric = ask_libfabric(thorough, interfaces);
  record.nics = choose_rails(interfaces, names_of_nics(variable("TAPA_NICS")), record.notes);
  find_places(thorough, record);
  if (thorough && has_gpu(kSys)) {
    SourceReport report;
    record.gpus = ask_nvml(report);
    const std::string peers = variable("TAPA_GPU_PEERS");
    if (const auto wanted = read_gpu_peers(peers)) {
      if (!wanted->some) refuse_peers(record.gpus);
      record.gpu_peers = wanted->group;
    }
    record.sources.push_back(std::move(report));
  }
  record.sources.push_back(std::move(fabric));
  if (thorough) add_host_facts(kProc, kSys, record);
  if (const std::string rate = variable("TAPA_NIC_RATE"); !rate.empty()) {
    apply_rates(rate, record.nics, record.notes);
  }
  std::string names;
  for (const Nic& nic : record.nics) names += (names.empty() ? "" : ", ") + nic.name;
  record.sources.push_back({"sysfs", true,
                            "cores " + std::to_string(record.cores) +
                                ", interfaces up: " + std::to_string(interfaces.size()) +
                                ", rails: " + (names.empty() ? "none" : names)});
  return record;
}

const std::string& local_record() {
  // Never destroyed: calls may come from destructors of globals.
  static const auto* const record = new std::string(to_json(describe_process(false)));
  return *record;
}

}  // namespace tapa
