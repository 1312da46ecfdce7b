#include <nlohmann/json.hpp>

#include "topology/topology_file.hpp"

namespace tapa {

namespace {

using Json = nlohmann::ordered_json;

void write_link(const LinkCost& link, Json& out) {
  if (link.latency) out["latency"] = *link.latency;
  if (link.bandwidth) out["bandwidth"] = *link.bandwidth;
  if (link.message) out["message"] = *link.message;
  if (link.links) out["links"] = *link.links;
  if (link.taper) out["taper"] = *link.taper;
  if (link.device_bandwidth) out["device_bandwidth"] = *link.device_bandwidth;
}

Json write_levels(const Topology& topology) {
  Json levels = Json::array();
  for (std::size_t l = 0; l < topology.levels.size(); ++l) {
    const Level& level = topology.levels[l];
    Json out = {{"name", level.name}};
    if (level.groups > 1) out["groups"] = topology.groups_of(static_cast<int>(l));
    if (!level.also.empty()) out["also"] = level.also;
    write_link(level.link, out);
    levels.push_back(std::move(out));
  }
  return levels;
}

Json write_nics(const Topology& topology) {
  Json nics = Json::array();
  for (const Nic& nic : topology.nics) {
    Json out = {{"name", nic.name}, {"node", nic.node}};
    if (nic.bandwidth) out["bandwidth"] = *nic.bandwidth;
    if (nic.message) out["message"] = *nic.message;
    if (!nic.pci.empty()) out["pci"] = nic.pci;
    if (!nic.provider.empty()) out["provider"] = nic.provider;
    if (nic.numa >= 0) out["numa"] = nic.numa;
    nics.push_back(std::move(out));
  }
  return nics;
}

Json write_devices(const Topology& topology) {
  Json devices = Json::array();
  for (const Device& device : topology.devices) {
    Json out = {{"name", device.name}};
    if (!device.pci.empty()) out["pci"] = device.pci;
    if (device.numa >= 0) out["numa"] = device.numa;
    devices.push_back(std::move(out));
  }
  return devices;
}

}  // namespace

std::string write_topology(const Topology& topology) {
  Json file = {
      {"schema", "tapa-topology/1"}, {"kind", "ranks"}, {"name", topology.name}, {"ranks", topology.ranks}};
  file["levels"] = write_levels(topology);
  if (topology.nic_level < static_cast<int>(topology.levels.size())) {
    file["nic_level"] = topology.levels[static_cast<std::size_t>(topology.nic_level)].name;
  }
  if (!topology.nics.empty()) file["nics"] = write_nics(topology);
  if (!topology.rails.empty()) file["rails"] = topology.rails;
  if (!topology.devices.empty()) file["devices"] = write_devices(topology);
  if (topology.cores_per_rank) file["cores_per_rank"] = *topology.cores_per_rank;
  if (topology.copy) file["copy"] = *topology.copy;
  // Names from the operating system may hold any bytes: bad UTF-8 is replaced, not thrown.
  return file.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tapa
