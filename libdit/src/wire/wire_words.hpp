/// A policy from what people write: a name, a rule, a file.
#pragma once

#include <string>
#include <string_view>

#include "wire/wire_policy.hpp"

namespace dit {

/// For a run of so many steps: a preset's name, "paper" or "v-major:..." (wire/v_major.hpp), the text of a
/// policy file, which begins with a brace, or "@PATH" of one. Throws std::invalid_argument or
/// std::runtime_error with the words of what reads it.
[[nodiscard]] WirePolicy wire_policy_from(std::string_view text, int steps);

}  // namespace dit
