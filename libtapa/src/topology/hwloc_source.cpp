#include "topology/hwloc_source.hpp"

#ifdef TAPA_HAVE_HWLOC
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <stdexcept>

#include "files/environment.hpp"
#include "topology/hwloc_library.hpp"
#include "topology/sysfs.hpp"
#endif

namespace tapa {

#ifndef TAPA_HAVE_HWLOC

bool add_hwloc(const Environment&, const CudaView&, Record& record) {
  record.sources.push_back({"hwloc", false, "not built in (libhwloc-dev was missing)"});
  return false;
}

#else

namespace {

struct DestroyTopology {
  void operator()(hwloc_topology* t) const { hwloc_topology_destroy(t); }
};
using HwlocTopology = std::unique_ptr<hwloc_topology, DestroyTopology>;

struct FreeBitmap {
  void operator()(hwloc_bitmap_s* b) const { hwloc_bitmap_free(b); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

HwlocTopology load() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return {};
  HwlocTopology topology(raw);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (files::variable("HWLOC_COMPONENTS") == nullptr) {
    // These start a GPU runtime in every process, which costs memory and may break a later fork; NVML, RSMI
    // and Level Zero tell as much.
    for (const char* heavy : {"cuda", "opencl", "gl"}) {
      hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, heavy);
    }
  }
  if (hwloc_topology_load(raw) != 0) return {};
  return topology;
}

std::string pci_text(const hwloc_obj* pci) {
  const auto& attr = pci->attr->pcidev;
  char text[40];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", unsigned{attr.domain}, unsigned{attr.bus},
                unsigned{attr.dev}, unsigned{attr.func});
  return text;
}

/// NUMA node next to an I/O object, -1 when that is not exactly one.
int numa_of(hwloc_topology_t topology, hwloc_obj_t io) {
  const hwloc_obj* host = hwloc_get_non_io_ancestor_obj(topology, io);
  return host != nullptr && hwloc_bitmap_weight(host->nodeset) == 1 ? hwloc_bitmap_first(host->nodeset) : -1;
}

/// A number that is the same in every process of the node: batch systems show each task only its own part of
/// the machine, so hwloc's logical numbers may differ.
int stable_number(const hwloc_obj* object) {
  if (object->type == HWLOC_OBJ_L3CACHE || object->os_index == HWLOC_UNKNOWN_INDEX) {
    return hwloc_bitmap_first(object->complete_cpuset);
  }
  return static_cast<int>(object->os_index);
}

/// Number of the object of a type that holds all CPUs of the set, -1 when there is none.
int covering(hwloc_topology_t topology, const hwloc_bitmap_s* cpus, hwloc_obj_type_t type) {
  if (type == HWLOC_OBJ_NUMANODE) {  // not an ancestor of cores in hwloc's tree
    const hwloc_obj* node = nullptr;
    while ((node = hwloc_get_next_obj_by_type(topology, type, const_cast<hwloc_obj*>(node))) != nullptr) {
      if (hwloc_bitmap_isincluded(cpus, node->cpuset) != 0) return stable_number(node);
    }
    return -1;
  }
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_obj_covering_cpuset_by_type(topology, cpus, type, object)) != nullptr) {
    if (hwloc_bitmap_isincluded(cpus, object->cpuset) != 0) return stable_number(object);
  }
  return -1;
}

/// CPUs that the process may run on, cut to the machine's. In a topology that is not this machine's (XML,
/// synthetic) hwloc cannot ask: then the process is not bound.
Bitmap binding(hwloc_topology_t topology) {
  Bitmap cpus(hwloc_bitmap_alloc());
  const hwloc_bitmap_s* allowed = hwloc_topology_get_allowed_cpuset(topology);
  if (!cpus) throw std::bad_alloc();
  if (hwloc_get_cpubind(topology, cpus.get(), HWLOC_CPUBIND_PROCESS) != 0)
    hwloc_bitmap_copy(cpus.get(), allowed);
  hwloc_bitmap_and(cpus.get(), cpus.get(), allowed);
  if (hwloc_bitmap_iszero(cpus.get()) != 0) hwloc_bitmap_copy(cpus.get(), allowed);
  return cpus;
}

int cores_in(hwloc_topology_t topology, const hwloc_bitmap_s* cpus) {
  int cores = 0;
  hwloc_obj_t core = nullptr;
  while ((core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)) != nullptr) {
    if (hwloc_bitmap_intersects(core->cpuset, cpus) != 0) ++cores;
  }
  return cores > 0 ? cores : hwloc_bitmap_weight(cpus);
}

std::string text_of(const hwloc_bitmap_s* cpus) {
  std::vector<int> list;
  for (int cpu = hwloc_bitmap_first(cpus); cpu != -1; cpu = hwloc_bitmap_next(cpus, cpu)) list.push_back(cpu);
  return cpu_list(list);
}

void add_places(hwloc_topology_t topology, const hwloc_bitmap_s* cpus, Record& record) {
  const hwloc_bitmap_s* allowed = hwloc_topology_get_allowed_cpuset(topology);
  record.cores = cores_in(topology, allowed);
  record.allowed = text_of(allowed);
  record.l3 = covering(topology, cpus, HWLOC_OBJ_L3CACHE);
  record.numa = covering(topology, cpus, HWLOC_OBJ_NUMANODE);
  record.socket = covering(topology, cpus, HWLOC_OBJ_PACKAGE);
  if (hwloc_bitmap_isequal(cpus, allowed) != 0) return;
  record.bound_cores = cores_in(topology, cpus);
  record.cpus = text_of(cpus);
}

std::string info_of(const hwloc_obj* object, const char* key) {
  const char* value = hwloc_obj_get_info_by_name(const_cast<hwloc_obj*>(object), key);
  return value == nullptr ? std::string() : value;
}

/// Level Zero's tiles and the package's serial number, from the OS devices below a PCI device.
void look_below(const hwloc_obj* pci, int& tiles, std::string& serial) {
  for (const hwloc_obj* os = pci->io_first_child; os != nullptr; os = os->next_sibling) {
    if (os->type != HWLOC_OBJ_OS_DEVICE) continue;
    if (const std::string count = info_of(os, "LevelZeroSubdevices"); !count.empty()) {
      tiles = std::max(tiles, std::atoi(count.c_str()));
    }
    if (const std::string text = info_of(os, "AMDSerial"); !text.empty()) serial = text;
  }
}

/// Display controllers, and "processing accelerators" as newer AMD Instincts call themselves; not the
/// graphics of an Intel desktop processor (VGA).
bool is_gpu_class(unsigned vendor, unsigned class_id) {
  constexpr unsigned vga = 0x0300, display = 0x03, accelerator = 0x12, amd = 0x1002, intel = 0x8086;
  if (vendor == intel && class_id == vga) return false;
  return class_id >> 8 == display || (vendor == amd && class_id >> 8 == accelerator);
}

struct Vendor {
  unsigned id;
  GpuVendor vendor;
  const char* name;
};
constexpr Vendor vendors[] = {{0x10de, GpuVendor::nvidia, "NVIDIA"},
                              {0x1002, GpuVendor::amd, "AMD"},
                              {0x8086, GpuVendor::intel, "Intel"}};

/// Null when it makes no GPUs that count.
const Vendor* vendor_of(unsigned id) {
  const auto* const found = std::ranges::find(vendors, id, &Vendor::id);
  return found == std::end(vendors) ? nullptr : found;
}

/// GPUs in PCI order. AMD packages with one serial number are one GPU whose dies are its tiles.
std::vector<GpuEntry> list_gpus(hwloc_topology_t topology) {
  std::map<std::string, const hwloc_obj*> devices;
  hwloc_obj_t pci = nullptr;
  while ((pci = hwloc_get_next_pcidev(topology, pci)) != nullptr) {
    const auto& attr = pci->attr->pcidev;
    if (vendor_of(attr.vendor_id) != nullptr && is_gpu_class(attr.vendor_id, attr.class_id))
      devices[pci_text(pci)] = pci;
  }
  std::vector<GpuEntry> list;
  std::map<std::string, std::vector<std::size_t> > packages;
  for (const auto& [address, object] : devices) {
    const Vendor& vendor = *vendor_of(object->attr->pcidev.vendor_id);
    GpuEntry entry{vendor.vendor, {}, 1};
    std::string serial;
    look_below(object, entry.tiles, serial);
    const int number = static_cast<int>(list.size());
    entry.gpu = {std::string(vendor.name) + " " + std::to_string(number), address,
                 numa_of(topology, const_cast<hwloc_obj*>(object)), number, -1};
    if (!serial.empty()) packages[serial].push_back(list.size());
    list.push_back(std::move(entry));
  }
  for (const auto& [serial, dies] : packages) {
    for (std::size_t d = 0; dies.size() > 1 && d < dies.size(); ++d) {
      Gpu& die = list[dies[d]].gpu;
      die.gpu = list[dies[0]].gpu.gpu;
      die.tile = static_cast<int>(d);
    }
  }
  return list;
}

/// NVIDIA's GPUs of a machine that is not this one, and all that hwloc knows of them. GPUs of one device
/// number are of one model.
CudaView view_of(hwloc_topology_t topology, const std::vector<GpuEntry>& list) {
  CudaView view;
  for (const GpuEntry& entry : list) {
    const hwloc_obj* const pci = hwloc_get_pcidev_by_busidstring(topology, entry.gpu.pci.c_str());
    if (entry.vendor == GpuVendor::nvidia && pci != nullptr)
      view.gpus.push_back(
          {short_pci(entry.gpu.pci), std::to_string(pci->attr->pcidev.device_id), {}, false, {}});
  }
  return view;
}

/// The I/O or normal object that stands for a NIC, or null.
hwloc_obj_t object_of(hwloc_topology_t topology, const Nic& nic) {
  if (!nic.pci.empty()) {
    if (hwloc_obj_t pci = hwloc_get_pcidev_by_busidstring(topology, nic.pci.c_str())) return pci;
  }
  hwloc_obj_t os = nullptr;
  while ((os = hwloc_get_next_osdev(topology, os)) != nullptr) {
    if (os->name != nullptr && nic.name == os->name) return os;
  }
  return nullptr;
}

bool is_below(const hwloc_obj* object, const hwloc_obj* ancestor) {
  for (; object != nullptr; object = object->parent) {
    if (object == ancestor) return true;
  }
  return false;
}

/// Climbs from the rank's GPU (or its cores) until NICs are found below; those are the nearest.
std::vector<int> near_nics(hwloc_topology_t topology, const hwloc_bitmap_s* cpus, const Record& record) {
  std::vector<hwloc_obj_t> objects;
  for (const Nic& nic : record.nics) objects.push_back(object_of(topology, nic));
  hwloc_obj_t at = nullptr;
  if (!record.gpu.pci.empty()) at = hwloc_get_pcidev_by_busidstring(topology, record.gpu.pci.c_str());
  if (at == nullptr) at = hwloc_get_obj_covering_cpuset(topology, cpus);
  for (; at != nullptr; at = at->parent) {
    std::vector<int> near;
    for (std::size_t n = 0; n < objects.size(); ++n) {
      if (objects[n] != nullptr && is_below(objects[n], at)) near.push_back(static_cast<int>(n));
    }
    if (!near.empty()) return near;
  }
  return {};
}

int count_of(hwloc_topology_t topology, hwloc_obj_type_t type) {
  return std::max(0, hwloc_get_nbobjs_by_type(topology, type));
}

}  // namespace

bool add_hwloc(const Environment& environment, const CudaView& cuda, Record& record) {
  if (const std::string& problem = hwloc_problem(); !problem.empty()) {
    record.sources.push_back({"hwloc", false, problem});
    return false;
  }
  const HwlocTopology topology = load();
  if (!topology) {
    record.sources.push_back({"hwloc", false, "hwloc_topology_load failed"});
    return false;
  }
  const Bitmap cpus = binding(topology.get());
  add_places(topology.get(), cpus.get(), record);
  const std::vector<GpuEntry> gpus = list_gpus(topology.get());
  const bool this_machine = hwloc_topology_is_thissystem(topology.get()) != 0;
  const ChosenGpu chosen = chosen_gpu(gpus, environment, this_machine ? cuda : view_of(topology.get(), gpus));
  record.gpu = chosen.gpu;
  for (Nic& nic : record.nics) {
    hwloc_obj_t object = object_of(topology.get(), nic);
    if (nic.numa < 0 && object != nullptr) nic.numa = numa_of(topology.get(), object);
  }
  record.near = near_nics(topology.get(), cpus.get(), record);
  record.facts.sockets = count_of(topology.get(), HWLOC_OBJ_PACKAGE);
  record.facts.numa_nodes = count_of(topology.get(), HWLOC_OBJ_NUMANODE);
  record.facts.gpus = static_cast<int>(gpus.size());
  std::string detail = "sockets " + std::to_string(record.facts.sockets) + ", NUMA nodes " +
                       std::to_string(record.facts.numa_nodes) + ", cores " + std::to_string(record.cores) +
                       ", GPUs " + std::to_string(gpus.size());
  if (!chosen.problem.empty())
    detail += "; which GPU CUDA_VISIBLE_DEVICES gives this rank is not known: " + chosen.problem;
  if (!this_machine) detail += "; not of this machine (HWLOC_XMLFILE or such)";
  record.sources.push_back({"hwloc", true, detail});
  return true;
}

#endif

}  // namespace tapa
