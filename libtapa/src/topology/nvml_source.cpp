#include "topology/nvml_source.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <set>
#include <stdexcept>

namespace tapa {

namespace {

// The declarations below are those of nvml.h, which need not be there.

using Device = void*;
constexpr unsigned kMostLinks = 32;  // today's GPUs have 18
constexpr int kToGpu = 0;            // nvmlIntNvLinkDeviceType_t
constexpr int kToSwitch = 2;
constexpr int kRead = 0;  // nvmlGpuP2PCapsIndex_t
constexpr int kWrite = 1;
constexpr int kReached = 0;  // nvmlGpuP2PStatus_t
constexpr int kUnknown = 6;
struct PciInfo {
  char legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char id[32];
};

/// NVML, initialised.
class Nvml {
 public:
  explicit Nvml(const char* file) : library_(dlopen(file, RTLD_LAZY | RTLD_LOCAL)) {
    if (!library_) throw std::runtime_error(std::string(file) + " is not there");
    const auto begin = find<int()>("nvmlInit_v2");
    if (const int code = begin(); code != 0)
      throw std::runtime_error("nvmlInit failed: error " + std::to_string(code));
    initialised_ = true;
  }
  ~Nvml() {
    if (initialised_) find<int()>("nvmlShutdown")();
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  template <class Function>
  Function* find(const char* name) const {
    void* const found = dlsym(library_.get(), name);
    if (found == nullptr) throw std::runtime_error(std::string("it has no ") + name);
    return reinterpret_cast<Function*>(found);
  }
  /// Whether a question could be asked and was answered.
  template <class Function, class... Values>
  bool ask(const char* name, Values... values) const {
    void* const found = dlsym(library_.get(), name);
    return found != nullptr && reinterpret_cast<Function*>(found)(values...) == 0;
  }

 private:
  struct Close {
    void operator()(void* library) const { dlclose(library); }
  };
  std::unique_ptr<void, Close> library_;
  bool initialised_ = false;
};

std::string pci_of(const PciInfo& info) {
  return short_pci(std::string_view(info.id, strnlen(info.id, sizeof info.id)));
}

/// The other end of a link: a GPU's address, "" for a switch; nothing for what is neither.
std::optional<std::string> other_end(const Nvml& nvml, Device device, unsigned link,
                                     const std::set<std::string>& gpus) {
  PciInfo info{};
  const bool named =
      nvml.ask<int(Device, unsigned, PciInfo*)>("nvmlDeviceGetNvLinkRemotePciInfo_v2", device, link, &info);
  const std::string pci = named ? pci_of(info) : std::string();
  if (gpus.contains(pci)) return pci;
  int kind = kToSwitch;  // older drivers do not say
  nvml.ask<int(Device, unsigned, int*)>("nvmlDeviceGetNvLinkRemoteDeviceType", device, link, &kind);
  if (kind == kToSwitch) return "";
  return kind == kToGpu && named ? std::optional(pci) : std::nullopt;
}

void add_links(const Nvml& nvml, Device device, const std::set<std::string>& gpus, GpuLinks& gpu) {
  for (unsigned link = 0; link < kMostLinks; ++link) {
    unsigned up = 0;
    if (!nvml.ask<int(Device, unsigned, unsigned*)>("nvmlDeviceGetNvLinkState", device, link, &up)) break;
    unsigned version = 0;
    nvml.ask<int(Device, unsigned, unsigned*)>("nvmlDeviceGetNvLinkVersion", device, link, &version);
    const auto rate = nvlink_rate(version);
    if (up == 0 || !rate) continue;
    const auto peer = other_end(nvml, device, link, gpus);
    if (!peer) continue;
    const auto same = std::ranges::find_if(
        gpu.links, [&](const NvLink& l) { return l.peer == *peer && l.bandwidth == *rate; });
    if (same != gpu.links.end()) {
      ++same->count;
    } else {
      gpu.links.push_back({*peer, 1, *rate});
    }
  }
}

std::string address_of(const Nvml& nvml, Device device) {
  PciInfo info{};
  if (!nvml.ask<int(Device, PciInfo*)>("nvmlDeviceGetPciInfo_v3", device, &info))
    throw std::runtime_error("a GPU has no PCI address");
  return pci_of(info);
}

/// A name of the device by that function; "" when it has none.
std::string asked_text(const Nvml& nvml, const char* function, Device device) {
  std::array<char, 96> text{};
  const bool known = nvml.ask<int(Device, char*, unsigned)>(function, device, text.data(),
                                                            static_cast<unsigned>(text.size()));
  return known ? text.data() : std::string();
}

GpuLinks describe(const Nvml& nvml, Device device) {
  GpuLinks gpu;
  gpu.pci = address_of(nvml, device);
  gpu.name = asked_text(nvml, "nvmlDeviceGetName", device);
  unsigned generation = 0;
  unsigned lanes = 0;
  nvml.ask<int(Device, unsigned*)>("nvmlDeviceGetMaxPcieLinkGeneration", device, &generation);
  nvml.ask<int(Device, unsigned*)>("nvmlDeviceGetMaxPcieLinkWidth", device, &lanes);
  gpu.pcie = pcie_rate(generation, lanes);
  return gpu;
}

/// What the driver does not say, or does not know, is not taken for a refusal.
bool refuses(const Nvml& nvml, Device from, Device to) {
  return std::ranges::any_of(std::array{kRead, kWrite}, [&](int what) {
    int status = kUnknown;
    return nvml.ask<int(Device, Device, int, int*)>("nvmlDeviceGetP2PStatus", from, to, what, &status) &&
           status != kReached && status != kUnknown;
  });
}

/// Whether it is in MIG mode.
bool is_divided(const Nvml& nvml, Device device) {
  unsigned now = 0;
  unsigned later = 0;
  nvml.ask<int(Device, unsigned*, unsigned*)>("nvmlDeviceGetMigMode", device, &now, &later);
  return now != 0;
}

std::vector<Device> devices_of(const Nvml& nvml) {
  unsigned count = 0;
  nvml.ask<int(unsigned*)>("nvmlDeviceGetCount_v2", &count);
  std::vector<Device> devices;
  for (unsigned i = 0; i < count; ++i) {
    Device device = nullptr;
    if (nvml.ask<int(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2", i, &device))
      devices.push_back(device);
  }
  return devices;
}

CudaGpu name(const Nvml& nvml, Device device) {
  constexpr const char* uuid = "nvmlDeviceGetUUID";
  CudaGpu gpu;
  gpu.pci = address_of(nvml, device);
  gpu.model = asked_text(nvml, "nvmlDeviceGetName", device);
  gpu.uuid = asked_text(nvml, uuid, device);
  gpu.divided = is_divided(nvml, device);
  unsigned parts = 0;
  if (gpu.divided) nvml.ask<int(Device, unsigned*)>("nvmlDeviceGetMaxMigDeviceCount", device, &parts);
  for (unsigned i = 0; i < parts; ++i) {
    Device part = nullptr;
    if (nvml.ask<int(Device, unsigned, Device*)>("nvmlDeviceGetMigDeviceHandleByIndex", device, i, &part))
      gpu.parts.push_back(asked_text(nvml, uuid, part));
  }
  return gpu;
}

std::vector<GpuLinks> list_gpus(const Nvml& nvml) {
  const std::vector<Device> devices = devices_of(nvml);
  std::vector<GpuLinks> gpus;
  std::set<std::string> addresses;
  for (Device device : devices) {
    gpus.push_back(describe(nvml, device));
    addresses.insert(gpus.back().pci);
  }
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    add_links(nvml, devices[i], addresses, gpus[i]);
    const bool alone = is_divided(nvml, devices[i]);  // parts reach neither each other nor other GPUs
    for (std::size_t other = 0; other < gpus.size(); ++other) {
      if (alone || (other != i && refuses(nvml, devices[i], devices[other])))
        gpus[i].refuses.push_back(gpus[other].pci);
    }
  }
  return gpus;
}

}  // namespace

std::vector<GpuLinks> ask_nvml(SourceReport& report, const char* library) {
  report = {"nvml", false, ""};
  try {
    std::vector<GpuLinks> gpus = list_gpus(Nvml(library));
    report.used = !gpus.empty();
    report.detail = "GPUs " + std::to_string(gpus.size());
    if (!gpus.empty()) report.detail += ", each with " + text_of(gpus[0]);
    return gpus;
  } catch (const std::exception& error) {
    report.detail = error.what();
    return {};
  }
}

std::vector<CudaGpu> cuda_gpus(std::string& why, const char* library) {
  why.clear();
  try {
    const Nvml nvml(library);
    std::vector<CudaGpu> gpus;
    for (void* const device : devices_of(nvml)) gpus.push_back(name(nvml, device));
    if (gpus.empty()) why = "NVML shows no GPU";
    return gpus;
  } catch (const std::exception& error) {
    why = error.what();
    return {};
  }
}

}  // namespace tapa
