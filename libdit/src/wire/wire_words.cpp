#include "wire/wire_words.hpp"

#include <stdexcept>
#include <string>

#include "wire/v_major.hpp"
#include "wire/wire_policy_file.hpp"

namespace dit {

WirePolicy wire_policy_from(std::string_view text, int steps) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') {
    return parse_wire_policy(text, "policy");
  }
  if (text.starts_with('@')) {
    return read_wire_policy(text.substr(1));
  }
  if (text == "paper") {
    return wire_policy_of(published_v_major(), steps);
  }
  if (text.starts_with("v-major")) {
    return wire_policy_of(parse_v_major(text), steps);
  }
  try {
    return wire_preset(text, steps);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(std::string(error.what()) +
                                "; or paper, v-major:..., @PATH of a policy file, or its text");
  }
}

}  // namespace dit
