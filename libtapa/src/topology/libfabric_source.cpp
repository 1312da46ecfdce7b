#include "topology/libfabric_source.hpp"

#ifdef TAPA_HAVE_LIBFABRIC
#include <dlfcn.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#endif

namespace tapa {

#ifndef TAPA_HAVE_LIBFABRIC

SourceReport add_libfabric(std::vector<Interface>&) {
  return {"libfabric", false, "not built in (libfabric-dev was missing)"};
}

#else

namespace {

constexpr std::uint32_t asked_version = FI_VERSION(1, 14);

/// libfabric, loaded when it is asked and not before: loading it takes 0.2 s of each process (its providers
/// look for their devices), and most machines have nothing that only it knows. MPI libraries bring other
/// versions of it; one that is in the process already is taken. Stays loaded, as providers may leave threads
/// and exit handlers behind.
class Library {
 public:
  Library() : problem_(load()) {}

  /// Why it cannot be used, empty when it can.
  [[nodiscard]] const std::string& problem() const { return problem_; }

  decltype(&::fi_getinfo) getinfo = nullptr;
  decltype(&::fi_freeinfo) freeinfo = nullptr;
  decltype(&::fi_strerror) strerror = nullptr;

 private:
  std::string load() {
    constexpr const char* file = "libfabric.so.1";
    void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* const why = ::dlerror();
      return "cannot be loaded: " + std::string(why != nullptr ? why : file);
    }
    decltype(&::fi_version) version = nullptr;
    for (const bool found :
         {find(library, "fi_version", version), find(library, "fi_getinfo", getinfo),
          find(library, "fi_freeinfo", freeinfo), find(library, "fi_strerror", strerror)}) {
      if (!found)
        return std::string(file) + " has not all of fi_version, fi_getinfo, fi_freeinfo, fi_strerror";
    }
    // 2.x serves programs that ask for 1.x.
    if (const std::uint32_t found = version(); found < asked_version || FI_MAJOR(found) > 2) {
      return std::string(file) + " is " + std::to_string(FI_MAJOR(found)) + "." +
             std::to_string(FI_MINOR(found)) + ", expected 1.14 to 2.x";
    }
    return {};
  }

  /// By the version of the interface that has the attributes of NICs, which later libraries keep; structures
  /// of later versions may be others.
  template <class Function>
  static bool find(void* library, const char* name, Function& function) {
    void* found = ::dlvsym(library, name, "FABRIC_1.3");
    if (found == nullptr) found = ::dlsym(library, name);
    function = reinterpret_cast<Function>(found);
    return found != nullptr;
  }

  std::string problem_;
};

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

SourceReport add_libfabric(std::vector<Interface>& interfaces) {
  const Library library;
  if (!library.problem().empty()) return {"libfabric", false, library.problem()};
  fi_info* raw = nullptr;
  const int code = library.getinfo(asked_version, nullptr, nullptr, 0, nullptr, &raw);
  const std::unique_ptr<fi_info, decltype(library.freeinfo)> list(raw, library.freeinfo);
  if (code != 0) return {"libfabric", false, std::string("fi_getinfo: ") + library.strerror(-code)};
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
  return {"libfabric", !with_nic.empty(),
          "providers " + names + "; " + std::to_string(domains.size()) + " domains, " +
              std::to_string(with_nic.size()) + " with NIC attributes"};
}

#endif

}  // namespace tapa
