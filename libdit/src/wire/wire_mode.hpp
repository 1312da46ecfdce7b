/// How one block travels in one step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "wire/codec.hpp"

namespace dit {

enum class WireEnd : std::uint8_t { sender, receiver };

struct WireMode {
  WireFormat format = WireFormat::full;
  bool residual = false;  ///< only the difference to what both ends expect
  /// Fraction of the rows that travel, those that are farthest from what the receiver expects; the others
  /// stay as expected.
  double rows = 1;
  bool skip = false;  ///< nothing travels
  /// What travels is for the next step and need not have arrived before; this one uses what both ends have.
  bool late = false;
  /// V-Major's r: of each sample the fraction of rows that stays at the receiver as it is, those whose V
  /// changed least (transfer/active_rows.hpp). The same rows of Q, K and V; the output travels in full.
  std::optional<double> stays;
  bool operator==(const WireMode&) const = default;
  /// Whether this end must remember the block. The sender of V-Major's rows need not: they are chosen by V.
  [[nodiscard]] bool remembers(WireEnd end) const {
    return residual || skip || late || rows < 1 || (stays && end == WireEnd::receiver);
  }
  /// Whether a mask tells which rows travel.
  [[nodiscard]] bool leaves_rows() const { return !skip && (rows < 1 || stays); }
  [[nodiscard]] bool is_exact() const {
    return format == WireFormat::full && !skip && !late && !leaves_rows();
  }
};

/// "full", "fp8", "residual int4", "rows 0.5 fp8", "rows 0.5 residual int4", "v-major 0.6 fp8" (0.6 of the
/// rows stay), "v-major 0.6 residual int4", "late bf16", "skip". Throws std::invalid_argument that says what
/// was expected. to_string writes what parses back to the same.
[[nodiscard]] WireMode parse_wire_mode(std::string_view text);
[[nodiscard]] std::string to_string(const WireMode& mode);

}  // namespace dit
