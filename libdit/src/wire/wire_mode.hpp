/// How one block travels in one step.
#pragma once

#include <string>
#include <string_view>

#include "wire/codec.hpp"

namespace dit {

struct WireMode {
  WireFormat format = WireFormat::full;
  bool residual = false;  ///< only the difference to what both ends expect
  /// Fraction of the rows that travel, those that are farthest from what the receiver expects; the others
  /// stay as expected.
  double rows = 1;
  bool skip = false;  ///< nothing travels
  /// What travels is for the next step and need not have arrived before; this one uses what both ends have.
  bool late = false;
  bool operator==(const WireMode&) const = default;
  /// Whether both ends must remember the block.
  [[nodiscard]] bool remembers() const { return residual || skip || late || rows < 1; }
  [[nodiscard]] bool is_exact() const { return format == WireFormat::full && !skip && !late && rows >= 1; }
};

/// "full", "fp8", "residual int4", "rows 0.5 fp8", "rows 0.5 residual int4", "late bf16", "skip". Throws
/// std::invalid_argument that says what was expected. to_string writes what parses back to the same.
[[nodiscard]] WireMode parse_wire_mode(std::string_view text);
[[nodiscard]] std::string to_string(const WireMode& mode);

}  // namespace dit
