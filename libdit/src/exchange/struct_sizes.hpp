/// Structs of dit/exchange.h grow at their ends. What callers and plugins of the first version know of them,
/// and how smaller ones are read and written.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "dit/exchange.h"

namespace dit {

/// Bytes of a struct up to and with the last field of its first version.
inline constexpr std::size_t first_open_options_bytes =
    offsetof(dit_open_options, config) + sizeof(dit_open_options::config);
inline constexpr std::size_t first_selection_bytes =
    offsetof(dit_row_selection, recv_rows) + sizeof(dit_row_selection::recv_rows);
inline constexpr std::size_t first_call_bytes =
    offsetof(dit_exchange_call, layout_id) + sizeof(dit_exchange_call::layout_id);
inline constexpr std::size_t first_totals_bytes =
    offsetof(dit_exchange_totals, wait_seconds) + sizeof(dit_exchange_totals::wait_seconds);
inline constexpr std::size_t first_table_bytes =
    offsetof(dit_exchange_plugin, abort_job) + sizeof(dit_exchange_plugin::abort_job);

/// A caller's struct as this version knows it: what the caller's does not have is zero.
template <typename Struct>
[[nodiscard]] Struct completed(const Struct& given) {
  Struct whole{};
  std::memcpy(&whole, &given, std::min(given.struct_size, sizeof(Struct)));
  whole.struct_size = sizeof(Struct);
  return whole;
}

/// Fills in as much of a caller's struct as it has; its struct_size says then how much that is.
template <typename Struct>
void give(const Struct& whole, Struct& given) {
  const std::size_t known = std::min(given.struct_size, sizeof(Struct));
  std::memcpy(&given, &whole, known);
  given.struct_size = known;
}

/// A function, or the capabilities, of a plugin's table; null or 0 when the table has none: it may have been
/// built for a shorter one.
template <typename Entry>
[[nodiscard]] Entry entry_of(const dit_exchange_plugin& table, Entry dit_exchange_plugin::*member) {
  const auto* begin = reinterpret_cast<const std::byte*>(&table);
  const auto* entry = reinterpret_cast<const std::byte*>(&(table.*member));
  const std::size_t end = static_cast<std::size_t>(entry - begin) + sizeof(Entry);
  return end <= table.struct_size ? table.*member : Entry{};
}

}  // namespace dit
