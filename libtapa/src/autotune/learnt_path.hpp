/// @file
/// Where what was learnt is kept. Pure, and alone in its file: the drop-in asks before libtapa is loaded.
#pragma once

#include <string>
#include <string_view>

namespace tapa {

/// The file, or "" where there is none. `wanted`: TAPA_CACHE; `xdg`, `home`: XDG_CACHE_HOME and HOME; what is
/// not set is empty.
[[nodiscard]] inline std::string learnt_path(std::string_view wanted, std::string_view xdg,
                                             std::string_view home) {
  if (wanted.find('/') != std::string_view::npos) return std::string(wanted);
  const bool on = wanted.empty() || wanted == "1" || wanted == "on" || wanted == "yes" || wanted == "true";
  if (!on) return {};
  constexpr std::string_view name = "/tapa/learnt.json";
  if (xdg.starts_with('/')) return std::string(xdg) + std::string(name);  // as the standard has it
  if (home.starts_with('/')) return std::string(home) + "/.cache" + std::string(name);
  return {};
}

}  // namespace tapa
