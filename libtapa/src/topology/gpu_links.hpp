/// @file
/// The GPUs of a node and what joins them, as NVML tells: NVLink, NVLink switches, PCIe. Pure: descriptions
/// come from nvml_source.hpp, from other processes, or from files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tapa {

/// NVLinks of a GPU that are up and end at one place.
struct NvLink {
  std::string peer;  ///< PCI address of the GPU at the other end; "" for a switch
  int count = 0;
  double bandwidth = 0;  ///< bytes per second of one of them, one direction
  bool operator==(const NvLink&) const = default;
};

/// A GPU.
struct GpuLinks {
  std::string pci;             ///< PCI address, "0000:18:00.0"
  std::string name;            ///< "NVIDIA H200"
  std::optional<double> pcie;  ///< bytes per second of its PCIe link, one direction
  std::vector<NvLink> links;
  /// PCI addresses of GPUs whose memory it does not reach; its own where ranks that share it do not.
  std::vector<std::string> refuses = {};
  bool operator==(const GpuLinks&) const = default;
};

/// How two GPUs reach each other.
struct GpuPath {
  enum class Kind { same, nvlink, pcie, host };
  Kind kind = Kind::pcie;           ///< host: one refuses the other, so through memory of their host
  std::optional<double> bandwidth;  ///< bytes per second of the links, one direction, nobody else on the way
};
/// Precondition: indices into `gpus`. Links to switches join all GPUs that have any: a node has one such
/// fabric. `refused`: whatever they say.
[[nodiscard]] GpuPath path_between(const std::vector<GpuLinks>& gpus, std::size_t a, std::size_t b,
                                   bool refused = false);

/// island[gpu]: GPUs with the same number reach each other by NVLink, one with the other or over GPUs
/// between.
[[nodiscard]] std::vector<int> nvlink_islands(const std::vector<GpuLinks>& gpus);

/// All refuse each other, and ranks of one GPU, too.
void refuse_peers(std::vector<GpuLinks>& gpus);

/// "18 NVLinks to a switch, 450 GB/s; PCIe 63 GB/s"
[[nodiscard]] std::string text_of(const GpuLinks& gpu);

/// Bytes per second of one NVLink, one direction, by NVML's number of its version; nothing when that is
/// unknown. Source: NVIDIA's data sheets (1.0: P100, 2.x: V100, 3.x: A100, 4.0: H100 and H200, 5.0: B200).
[[nodiscard]] std::optional<double> nvlink_rate(unsigned nvml_version);

/// Bytes per second of a PCIe link, one direction, encoding taken off; nothing for unknown generations.
[[nodiscard]] std::optional<double> pcie_rate(unsigned generation, unsigned lanes);

/// "0000:18:00.0" of NVML's "00000000:18:00.0", in small letters.
[[nodiscard]] std::string short_pci(std::string_view text);

}  // namespace tapa
