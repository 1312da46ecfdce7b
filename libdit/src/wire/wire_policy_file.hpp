/// Wire policies as JSON files.
///
///     {"format": "dit-wire-policy", "version": 1, "name": "mine", "momentum": 0.75, "most_age": 0,
///      "guard": 0, "off": ["rack"], "rules": [
///        {"mode": "residual int2"},
///        {"mode": "residual int8", "steps": [0, 3]},
///        {"mode": "rows 0.5 fp8", "tensors": ["q", "k"], "layers": [0, -1], "every": 2, "branch": 0,
///         "level": "world"},
///        {"mode": "bf16", "tokens": "text"},
///        ...]}
///
/// Levels that are off carry everything in full. Of a rule only the mode must be there; steps and layers are
/// first and last, from the end where below 0; tokens are "text", "image" or "all". Modes are those of
/// wire_mode.hpp, as "v-major 0.6 residual int4" where no rule is for text or image tokens.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "wire/wire_policy.hpp"

namespace dit {

/// One text for one policy.
[[nodiscard]] std::string to_json(const WirePolicy& policy);
/// Throws std::runtime_error "WHERE: ..." that names the key, its value and what was expected; unknown keys
/// are errors.
[[nodiscard]] WirePolicy parse_wire_policy(std::string_view json, const std::string& where);
[[nodiscard]] WirePolicy read_wire_policy(const std::filesystem::path& path);

}  // namespace dit
