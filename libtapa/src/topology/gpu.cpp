#include "topology/gpu.hpp"

#include <algorithm>
#include <charconv>

namespace tapa {

namespace {

/// The number that is the whole text, or -1.
int number(const std::string& text) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0 ? value : -1;
}

std::vector<GpuEntry> of_vendor(const std::vector<GpuEntry>& list, GpuVendor vendor) {
  std::vector<GpuEntry> some;
  for (const GpuEntry& entry : list) {
    if (entry.vendor == vendor) some.push_back(entry);
  }
  return some;
}

Gpu entry_at(const std::vector<GpuEntry>& list, int index) {
  return index >= 0 && index < static_cast<int>(list.size()) ? list[static_cast<std::size_t>(index)].gpu
                                                             : Gpu{};
}

Gpu tile_of(const std::vector<GpuEntry>& list, int index, int tile) {
  if (index < 0 || index >= static_cast<int>(list.size())) return {};
  const GpuEntry& entry = list[static_cast<std::size_t>(index)];
  if (tile < 0 || tile >= entry.tiles) return {};
  Gpu gpu = entry.gpu;
  gpu.tile = tile;
  gpu.name += " tile " + std::to_string(tile);
  return gpu;
}

/// "g" is a GPU, or tile g counted over all GPUs in the flat hierarchy; "g.t" is a tile.
Gpu intel_gpu(const std::vector<GpuEntry>& list, const std::string& mask, bool flat) {
  const std::size_t dot = mask.find('.');
  if (dot != std::string::npos)
    return tile_of(list, number(mask.substr(0, dot)), number(mask.substr(dot + 1)));
  int index = number(mask);
  if (!flat || index < 0) return entry_at(list, index);
  for (std::size_t g = 0; g < list.size(); ++g) {
    if (index < list[g].tiles)
      return list[g].tiles == 1 ? list[g].gpu : tile_of(list, static_cast<int>(g), index);
    index -= list[g].tiles;
  }
  return {};
}

/// Of a device that CUDA_VISIBLE_DEVICES shows.
ChosenGpu cuda_gpu(const std::vector<GpuEntry>& list, const Environment& environment, const CudaView& cuda) {
  const auto at = [&](const std::string& pci) -> ChosenGpu {
    const auto found =
        std::ranges::find(list, pci, [](const GpuEntry& entry) { return short_pci(entry.gpu.pci); });
    return found == list.end() ? ChosenGpu{{}, "it shows " + pci + ", which hwloc does not"}
                               : ChosenGpu{found->gpu, {}};
  };
  if (!cuda.current.empty()) return at(cuda.current);
  if (cuda.gpus.empty()) return {{}, cuda.problem};
  const VisibleGpus visible =
      visible_gpus(cuda.gpus, environment("CUDA_VISIBLE_DEVICES"), environment("CUDA_DEVICE_ORDER"));
  if (!visible.unknown.empty()) return {{}, visible.unknown};
  if (visible.known.empty()) return {{}, "it shows no GPU"};
  if (visible.known.size() == 1) return at(visible.known[0]);
  return {{}, "it shows " + std::to_string(visible.known.size()) + " GPUs, and the process uses none yet"};
}

Gpu other_gpu(const std::vector<GpuEntry>& list, const Environment& environment) {
  const std::vector<GpuEntry> amd = of_vendor(list, GpuVendor::amd);
  for (const char* variable : {"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"}) {
    if (const std::string value = environment(variable); !amd.empty() && !value.empty()) {
      return entry_at(amd, number(value));
    }
  }
  const std::vector<GpuEntry> intel = of_vendor(list, GpuVendor::intel);
  if (const std::string value = environment("ZE_AFFINITY_MASK"); !intel.empty() && !value.empty()) {
    return intel_gpu(intel, value, environment("ZE_FLAT_DEVICE_HIERARCHY") != "COMPOSITE");
  }
  return {};
}

}  // namespace

ChosenGpu chosen_gpu(const std::vector<GpuEntry>& list, const Environment& environment,
                     const CudaView& cuda) {
  const std::vector<GpuEntry> nvidia = of_vendor(list, GpuVendor::nvidia);
  if (!nvidia.empty() && !environment("CUDA_VISIBLE_DEVICES").empty())
    return cuda_gpu(nvidia, environment, cuda);
  return {other_gpu(list, environment), {}};
}

bool names_gpu(const Environment& environment) {
  for (const char* variable :
       {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"}) {
    if (!environment(variable).empty()) return true;
  }
  return false;
}

}  // namespace tapa
