#include "topology/libfabric_source.hpp"

#ifdef TAPA_HAVE_LIBFABRIC
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>
#endif

namespace tapa {

#ifndef TAPA_HAVE_LIBFABRIC

void add_libfabric(bool, std::vector<Interface>&, Record& record) {
  record.sources.push_back({"libfabric", false, "not built in (libfabric-dev was missing)"});
}

#else

namespace {

/// "tcp;ofi_rxm" -> "tcp": the layers above do not matter here.
std::string core_provider(const fi_info& info) {
  const std::string name = info.fabric_attr->prov_name == nullptr ? "" : info.fabric_attr->prov_name;
  return name.substr(0, name.find(';'));
}

std::string pci_of(const fid_nic& nic) {
  if (nic.bus_attr == nullptr || nic.bus_attr->bus_type != FI_BUS_PCI) return {};
  const fi_pci_attr& pci = nic.bus_attr->attr.pci;
  char text[40];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", unsigned{pci.domain_id}, unsigned{pci.bus_id},
                unsigned{pci.device_id}, unsigned{pci.function_id});
  return text;
}

/// Takes over what a NIC's attributes say; a NIC that /sys did not show is added.
void take_nic(const fi_info& info, std::vector<Interface>& interfaces) {
  const std::string pci = pci_of(*info.nic);
  const char* device = info.nic->device_attr == nullptr ? nullptr : info.nic->device_attr->name;
  const std::string name = device != nullptr ? device : info.domain_attr->name;
  auto found = std::find_if(interfaces.begin(), interfaces.end(), [&](const Interface& i) {
    return i.nic.name == name || (!pci.empty() && i.nic.pci == pci);
  });
  if (found == interfaces.end()) {
    Interface added;
    added.nic.name = name;
    added.kind = Interface::Kind::fabric;
    found = interfaces.insert(interfaces.end(), std::move(added));
  }
  if (found->nic.pci.empty()) found->nic.pci = pci;
  if (found->nic.provider.empty() || found->nic.provider == "tcp") found->nic.provider = core_provider(info);
  if (info.nic->link_attr != nullptr && info.nic->link_attr->speed > 0) {
    found->nic.bandwidth =
        static_cast<double>(info.nic->link_attr->speed) / 8;  // speed is in bits per second
  }
}

}  // namespace

void add_libfabric(bool ask, std::vector<Interface>& interfaces, Record& record) {
  if (!ask) {
    record.sources.push_back({"libfabric", false, "not asked: /sys shows no RDMA device"});
    return;
  }
  fi_info* raw = nullptr;
  const int code = fi_getinfo(FI_VERSION(1, 14), nullptr, nullptr, 0, nullptr, &raw);
  const std::unique_ptr<fi_info, void (*)(fi_info*)> list(raw, fi_freeinfo);
  if (code != 0) {
    record.sources.push_back({"libfabric", false, std::string("fi_getinfo: ") + fi_strerror(-code)});
    return;
  }
  std::set<std::string> providers;
  std::set<std::string> domains;
  std::set<std::string> with_nic;
  for (const fi_info* info = list.get(); info != nullptr; info = info->next) {
    if (info->fabric_attr == nullptr || info->domain_attr == nullptr || info->domain_attr->name == nullptr)
      continue;
    providers.insert(core_provider(*info));
    domains.insert(info->domain_attr->name);
    if (info->nic == nullptr || !with_nic.insert(info->domain_attr->name).second) continue;
    take_nic(*info, interfaces);
  }
  std::string names;
  for (const std::string& p : providers) names += (names.empty() ? "" : ", ") + p;
  record.sources.push_back({"libfabric", !with_nic.empty(),
                            "providers " + names + "; " + std::to_string(domains.size()) + " domains, " +
                                std::to_string(with_nic.size()) + " with NIC attributes"});
}

#endif

}  // namespace tapa
