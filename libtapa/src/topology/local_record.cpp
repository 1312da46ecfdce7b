#include <cstdlib>

#include "topology/detect.hpp"
#include "topology/hwloc_source.hpp"
#include "topology/libfabric_source.hpp"
#include "topology/sysfs.hpp"

namespace tapa {

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

}  // namespace

Record describe_process(bool thorough) {
  const std::string sys = "/sys";
  const std::string proc = "/proc";
  Record record;
  identify_host(proc, record);
  add_host_facts(proc, sys, record);
  record.rack = rack_from_slurm(variable("SLURM_TOPOLOGY_ADDR"), variable("SLURM_TOPOLOGY_ADDR_PATTERN"));
  std::vector<Interface> interfaces = list_interfaces(sys);
  Record fabric;  // its report comes after hwloc's
  add_libfabric(thorough || has_rdma_device(sys), interfaces, fabric);
  record.nics = choose_rails(interfaces, variable("TAPA_NICS"), record.notes);
  if (!add_hwloc(variable, record)) add_binding_from_sysfs(sys, record);
  record.sources.insert(record.sources.end(), fabric.sources.begin(), fabric.sources.end());
  if (const std::string rate = variable("TAPA_NIC_RATE"); !rate.empty()) {
    apply_rates(rate, record.nics, record.notes);
  }
  std::string names;
  for (const Nic& nic : record.nics) names += (names.empty() ? "" : ", ") + nic.name;
  record.sources.push_back({"sysfs", !record.nics.empty(),
                            "interfaces up: " + std::to_string(interfaces.size()) +
                                ", rails: " + (names.empty() ? "none" : names)});
  return record;
}

const std::string& local_record() {
  // Never destroyed: calls may come from destructors of globals.
  static const auto* const record = new std::string(to_json(describe_process(false)));
  return *record;
}

}  // namespace tapa
