/// @file
/// Whom TAPA_GPU_PEERS lets a rank's GPU reach. Pure, and in no library, as the device engine links none.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace tapa {

struct GpuPeers {
  static constexpr std::size_t kMostLetters = 32;  ///< of a group's name
  bool some = true;
  std::string_view group;  ///< only ranks of the same; "": all. Lies in the text that was read
};

/// Of "1" or nothing, "0" and "group:NAME"; none where it is anything else.
[[nodiscard]] inline std::optional<GpuPeers> read_gpu_peers(std::string_view text) {
  constexpr std::string_view kGroup = "group:";
  if (text.empty() || text == "1") return GpuPeers{};
  if (text == "0") return GpuPeers{false, {}};
  if (!text.starts_with(kGroup)) return std::nullopt;
  const std::string_view name = text.substr(kGroup.size());
  if (name.empty() || name.size() > GpuPeers::kMostLetters) return std::nullopt;
  return GpuPeers{true, name};
}

}  // namespace tapa
