/// @file
/// Texts of messages.
#pragma once

#include <string>
#include <type_traits>

namespace tapa {

/// Strings and numbers, one behind the other.
template <class... Parts>
[[nodiscard]] std::string words(const Parts&... parts) {
  std::string text;
  const auto append = [&](const auto& part) {
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(part)>>)
      text += std::to_string(part);
    else
      text += part;
  };
  (append(parts), ...);
  return text;
}

}  // namespace tapa
