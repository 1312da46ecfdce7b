/// @file
/// What is said of something that lasts longer than TAPA_TIMEOUT.
#pragma once

#include <string>

namespace tapa {

class ShmExchange;

/// "rank 1, rank 3".
template <class Ranks>
[[nodiscard]] std::string ranks_text(const Ranks& ranks) {
  std::string text;
  for (const auto rank : ranks) text += (text.empty() ? "rank " : ", ") + std::to_string(rank);
  return text;
}

/// Whom an exchange waits for, and for what.
[[nodiscard]] std::string waits_for(const ShmExchange& exchange);

/// Says that `what`, begun so many seconds ago, is unfinished, and why.
void tell_unfinished(const std::string& what, double seconds, const std::string& why);

}  // namespace tapa
